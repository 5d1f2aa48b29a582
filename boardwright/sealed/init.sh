#!/bin/busybox sh
# The initramfs around a distribution's kernel: load the modules that disks need, find the root, go there.
#
# Understands root=PARTUUID=…, PARTLABEL=…, UUID=…, LABEL=… and /dev/…, rootfstype=, rootflags=, rootdelay=
# (seconds to wait for the root, 30), rw and ro, init=. `rootwait` is always meant, within that bound.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev

root='' mode=ro type=ext4 flags='' bound=30 init=/sbin/init
read -r cmdline </proc/cmdline
for word in $cmdline; do
    case $word in
        root=*) root=${word#root=} ;;
        rw | ro) mode=$word ;;
        rootfstype=*) type=${word#rootfstype=} ;;
        rootflags=*) flags=,${word#rootflags=} ;;
        rootdelay=*) bound=${word#rootdelay=} ;;
        init=*) init=${word#init=} ;;
    esac
done

say() { echo "initramfs: $*" >/dev/console; }

# What a person at the console can do: look, mount the root at /root, leave with `exit`.
ask() {
    say "$*"
    say "this is a shell: mount the root at /root and type 'exit' to go on"
    setsid -c sh </dev/console >/dev/console 2>&1
}

# A partition's GUID, from its disk's GPT (UEFI 2.10, 5.3): entries of 128 bytes from block 2 on, the GUID
# at byte 16, its first three fields little-endian. Linux 6.12 does not show it in /sys.
partition_guid() {
    block=$(cat "/sys/class/block/$1/queue/logical_block_size")
    hexdump -s $((2 * block + 128 * ($2 - 1) + 16)) -n 16 \
        -e '1/4 "%08x" 2/2 "-%04x" "-" 2/1 "%02x" "-" 6/1 "%02x"' "/dev/$1"
}

find_partition() { # the device whose partition GUID is $1
    wanted=$(echo "$1" | tr A-F a-f)
    for number in /sys/class/block/*/*/partition; do
        [ -e "$number" ] || continue
        part=${number%/partition} disk=${number%/*/partition}
        if [ "$(partition_guid "${disk##*/}" "$(cat "$number")")" = "$wanted" ]; then
            echo "/dev/${part##*/}"
            return
        fi
    done
}

find_label() { # the device whose partition name is $1
    for event in /sys/class/block/*/uevent; do
        if grep -qxF "PARTNAME=$1" "$event"; then
            sed -n 's|^DEVNAME=|/dev/|p' "$event"
            return
        fi
    done
}

find_root() {
    case $root in
        PARTUUID=*) find_partition "${root#PARTUUID=}" ;;
        PARTLABEL=*) find_label "${root#PARTLABEL=}" ;;
        UUID=* | LABEL=*) findfs "$root" 2>/dev/null ;;
        /dev/*) [ ! -b "$root" ] || echo "$root" ;;
    esac
}

# A driver for a device that is not there is no fault; one that the root needs shows below.
while read -r module; do
    insmod "/modules/$module" 2>/dev/null
done </modules.order

up() { read -r seconds _ </proc/uptime && echo "${seconds%.*}"; }

device=$(find_root)
[ -n "$device" ] || say "waiting for root=$root, at most $bound s"
deadline=$(($(up) + bound))
while [ -z "$device" ] && [ "$(up)" -lt "$deadline" ]; do
    usleep 200000
    device=$(find_root)
done
if [ -z "$device" ]; then
    say "the block devices are:"
    cat /proc/partitions >/dev/console
    ask "root=$root did not appear within $bound s"
elif ! mount -t "$type" -o "$mode$flags" "$device" /root; then
    ask "$device cannot be mounted as $type"
fi
until [ -x "/root$init" ] || [ -L "/root$init" ]; do
    ask "there is no $init in the root"
done

mount --move /dev /root/dev
umount /proc /sys
exec switch_root /root "$init"
