#!/bin/busybox sh
# The initramfs around a distribution's kernel: load the modules that disks need, find the root, go there.
# Understands root=PARTUUID=…, PARTLABEL=…, UUID=…, LABEL=… and /dev/…; rw; rootwait is always meant.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev

root= mode=ro
for word in $(cat /proc/cmdline); do
    case $word in
        root=*) root=${word#root=} ;;
        rw | ro) mode=$word ;;
    esac
done

# A GUID as GPT stores it: the first three fields little-endian (UEFI 2.10, appendix A).
stored() {
    echo "$1" | tr A-F a-f | sed 's/^\(..\)\(..\)\(..\)\(..\)-\(..\)\(..\)-\(..\)\(..\)-\(....\)-\(............\)$/\4\3\2\1\6\5\8\7\9/'
    echo "$1" | tr A-F a-f | sed 's/.*-//'
}

partition_guid() { # disk number: bytes 16 to 31 of the entry; entries begin at sector 2
    dd if="/dev/$1" bs=1 skip=$((1024 + 128 * ($2 - 1) + 16)) count=16 2>/dev/null | hexdump -v -e '1/1 "%02x"'
}

find_root() {
    case $root in
        PARTUUID=*)
            wanted=$(stored "${root#PARTUUID=}" | tr -d '\n')
            for entry in /sys/class/block/*/partition; do
                [ -e "$entry" ] || continue
                part=${entry%/partition}
                disk=$(basename "$(dirname "$(readlink -f "$part")")")
                if [ "$(partition_guid "$disk" "$(cat "$entry")")" = "$wanted" ]; then
                    echo "/dev/${part##*/}"
                    return
                fi
            done
            ;;
        PARTLABEL=*) sed -n "s|^DEVNAME=|/dev/|p" $(grep -lx "PARTNAME=${root#PARTLABEL=}" /sys/class/block/*/uevent) /dev/null ;;
        UUID=* | LABEL=*) findfs "$root" 2>/dev/null ;;
        /dev/*) [ -b "$root" ] && echo "$root" ;;
    esac
}

while read -r module; do
    insmod "/modules/$module" 2>/dev/null || true
done </modules.order

waited=0
until device=$(find_root) && [ -n "$device" ]; do
    if [ $waited -ge 60 ]; then
        echo "initramfs: root=$root did not appear within 30 s; the block devices are:" >/dev/console
        cat /proc/partitions >/dev/console
        echo "initramfs: this is a shell; mount the root at /root and 'exit'" >/dev/console
        setsid sh -c 'exec sh </dev/console >/dev/console 2>&1'
        break
    fi
    waited=$((waited + 1))
    usleep 500000
done
[ -z "$device" ] || mount -t ext4 -o "$mode" "$device" /root || {
    echo "initramfs: $device cannot be mounted as ext4" >/dev/console
    setsid sh -c 'exec sh </dev/console >/dev/console 2>&1'
}
mount --move /dev /root/dev
umount /proc /sys
exec switch_root /root /sbin/init
