# Debian's own kernel package, taken apart: /in/debs/*.deb to the outputs every kernel step has, and an
# initramfs made without running arm64 code. MODULES: what the initramfs loads. DTBS: device trees.
mkdir kernel busybox root
for deb in /in/debs/*.deb; do
    case ${deb##*/} in
        linux-image-*) dpkg-deb -x "$deb" kernel ;;
        busybox-static_*) dpkg-deb -x "$deb" busybox ;;
    esac
done
release=$(ls kernel/usr/lib/modules)
modules=kernel/usr/lib/modules/$release
rm -f "$modules"/{build,source}
depmod -b kernel/usr -F "kernel/boot/System.map-$release" "$release"

cp "kernel/boot/vmlinuz-$release" /out/Image
cp "kernel/boot/System.map-$release" /out/System.map
cp "kernel/boot/config-$release" /out/config
echo "$release" >/out/release
for dtb in $DTBS; do
    mkdir -p "/out/dtbs/${dtb%/*}"
    cp "kernel/usr/lib/linux-image-$release/$dtb" "/out/dtbs/$dtb"
done
tar -c -f /out/modules.tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime --owner=0 --group=0 \
    --numeric-owner --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
    -C kernel usr/lib/modules
# shellcheck disable=SC2086 # a list of modules
python3 /in/sealed/initramfs.py --modules "$modules" --busybox busybox/usr/bin/busybox \
    --init /in/sealed/init.sh --out /out/initrd.img $MODULES
