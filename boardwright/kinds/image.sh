# The disk image and its block map: /in/layout.json, rootfs.tar, boot files and loader files
# to /out/<board>.img (sparse) and /out/<board>.bmap.
cd /in
exec python3 -S -m sealed.image
