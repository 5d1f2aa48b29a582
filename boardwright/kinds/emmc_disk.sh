# The emulated board's eMMC: partition images at their offsets, no table, as qcow2, whose size is what is in it.
#
# In:  /in/parts/<name>.img, /in/offsets (lines: offset name); SIZE (bytes), DISK
# Out: /out/$DISK
: "${SIZE:?}" "${DISK:?}"
truncate -s "$SIZE" disk.raw
while read -r offset name; do
    dd if="/in/parts/$name.img" of=disk.raw bs=1M oflag=seek_bytes seek="$offset" conv=notrunc,sparse status=none
done </in/offsets
qemu-img convert -f raw -O qcow2 -S 64k disk.raw "/out/$DISK"
qemu-img compare -q -f raw -F qcow2 disk.raw "/out/$DISK"
echo "$DISK: $((SIZE >> 20)) MiB, $(($(stat -c %s "/out/$DISK") >> 20)) MiB of data"
