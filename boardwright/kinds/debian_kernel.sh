# Debian's own kernel package, taken apart into what every kernel step leaves, and an initramfs made without
# running arm64 code.
#
# In:  /in/debs/{linux-image-*,busybox-static_*}.deb, /in/sealed/{initramfs.py,init.sh}; DTBS, MODULES
# Out: /out/{Image,System.map,config,release,modules.tar,initrd.img}, /out/dtbs/<vendor>/<board>.dtb

dpkg-deb --extract /in/debs/linux-image-*.deb kernel
dpkg-deb --extract /in/debs/busybox-static_*.deb busybox

release=$(basename kernel/usr/lib/modules/*)
modules=kernel/usr/lib/modules/$release
rm -f "$modules"/{build,source}
depmod -b kernel/usr "$release"

install -m 644 "kernel/boot/vmlinuz-$release" /out/Image
install -m 644 "kernel/boot/config-$release" /out/config
# As shipped: a line that says where the real one is.
install -m 644 "kernel/boot/System.map-$release" /out/System.map
for dtb in $DTBS; do
    if [ ! -f "kernel/usr/lib/linux-image-$release/$dtb" ]; then
        echo "error: Debian's $release has no device tree $dtb" >&2
        exit 1
    fi
    install -D -m 644 "kernel/usr/lib/linux-image-$release/$dtb" "/out/dtbs/$dtb"
done
tar -C kernel -cf /out/modules.tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w usr/lib/modules
# shellcheck disable=SC2086 # a list of modules
python3 /in/sealed/initramfs.py --modules "$modules" --busybox busybox/usr/bin/busybox \
    --init /in/sealed/init.sh --out /out/initrd.img $MODULES
echo "$release" >/out/release
