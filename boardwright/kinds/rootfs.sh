# The root file system's tarball, without root and without unpacking it.
cd /in
exec python3 -S -m sealed.rootfs
