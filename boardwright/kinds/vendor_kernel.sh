# The vendor's kernel from the vendor's tree, for the vendor's closed modules: no suffix on the release.
#
# In:   /in/source (a tree, or a tarball), /in/patches/*.patch; DEFCONFIG, DTB
# Out:  /out/{Image,dtb,config,release}
: "${JOBS:=1}" "${DEFCONFIG:?}" "${DTB:?}"
export MAKEFLAGS="${MAKEFLAGS:--j$JOBS}"
export ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
# Set and empty: scripts/setlocalversion adds nothing then, not even a plus sign.
export LOCALVERSION=
export KBUILD_BUILD_TIMESTAMP KBUILD_BUILD_VERSION=1 KBUILD_BUILD_USER=boardwright KBUILD_BUILD_HOST=boardwright
KBUILD_BUILD_TIMESTAMP=$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %e %H:%M:%S UTC %Y')

mkdir src build
if [ -d /in/source ]; then
    cp -R --no-preserve=ownership,timestamps /in/source/. src
else
    tar -C src --strip-components=1 --no-same-owner -xf /in/source
fi
for patch in /in/patches/*.patch; do
    [ -e "$patch" ] || continue
    patch -d src -p1 --fuzz=0 --batch <"$patch"
done
# A tree out of git would add its commit.
rm -rf src/.git src/.scmversion
kbuild() { make -C src O="$PWD/build" --no-print-directory "$@"; }
kbuild "$DEFCONFIG"
# LOCALVERSION_AUTO is on in the vendor's configuration.
sed -i '/^CONFIG_LOCALVERSION_AUTO=y$/s/.*/# CONFIG_LOCALVERSION_AUTO is not set/' build/.config
kbuild olddefconfig
kbuild Image "$DTB"
install -m 644 build/arch/arm64/boot/Image /out/Image
install -m 644 "build/arch/arm64/boot/dts/$DTB" /out/dtb
install -m 644 build/.config /out/config
kbuild -s kernelrelease >/out/release
