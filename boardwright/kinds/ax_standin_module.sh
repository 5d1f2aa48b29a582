# The stand-in for the AX650N's closed ax_cmm.ko, for the kernel of the emulated board.
#
# In:   /in/source (.deb of linux-source-X.Y), /in/kernel.config, /in/patches/<topic>/{series,*.patch},
#       /in/module/ (Kbuild and C), /in/sealed/patchtree.py; PATCHES, LOCALVERSION
# Out:  /out/ax_cmm.ko
# Kept: /tree/src and /tree/build, as for kernels

: "${JOBS:=1}" "${PATCHES:=}" "${LOCALVERSION:=}"
export MAKEFLAGS="${MAKEFLAGS:--j$JOBS}"
export ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- LOCALVERSION
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970' KBUILD_BUILD_USER=boardwright KBUILD_BUILD_HOST=boardwright
export CCACHE_COMPILERCHECK=content

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }
kbuild() {
    make -C /tree/src O=/tree/build --no-print-directory \
        CC='ccache aarch64-linux-gnu-gcc' HOSTCC='ccache gcc' "$@"
}

# --- The kernel's headers, configured as the kernel of the board was ---------------------------------
identity=$(cat /in/source /var/lib/dpkg/status | sha256sum | cut -d' ' -f1)
if [ "$(tree open --identity "$identity")" = fresh ]; then
    mkdir /tree/src /tree/build
    dpkg-deb --fsys-tarfile /in/source |
        tar -x --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ --strip-components=1 --no-same-owner -C /tree/src
fi
# shellcheck disable=SC2086 # a list of topics
tree apply --patches /in/patches --stage /work/stage $PATCHES
install -m 644 /in/kernel.config /tree/build/.config
kbuild -s olddefconfig
cmp /in/kernel.config /tree/build/.config || {
    echo "error: this source configures the kernel otherwise than the kernel itself was" >&2
    tree close
    exit 1
}
kbuild -s modules_prepare

# --- The module: it uses functions of the kernel that are always there, so no Module.symvers ----------
mkdir module
cp /in/module/* module
kbuild -s M=/work/module KBUILD_MODPOST_WARN=1 KCFLAGS=-Werror modules
sync -f /tree
tree close
aarch64-linux-gnu-strip --strip-debug -o /out/ax_cmm.ko module/ax_cmm.ko
