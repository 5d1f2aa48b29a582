# Compile a kernel: Debian's source package, our patches, our fragments; every asked-for line enforced.
#
# In:   /in/source (.deb of linux-source-X.Y), /in/patches/<topic>/{series,*.patch}, /in/config/*.config,
#       /in/sealed/{patchtree,kconfig}.py; PATCHES, CONFIG, DTBS, LOCALVERSION
# Out:  /out/{Image,System.map,config,release,modules.tar}, /out/dtbs/<vendor>/<board>.dtb
# Kept: /tree/src and /tree/build. The paths are part of the bytes (and of ccache's keys), so /tree is
#       needed even when nothing is kept; an empty directory does.
#
# Nothing here reads the clock, the host name or the user: see KBUILD_* and Documentation/kbuild/
# reproducible-builds.rst of the kernel.

: "${JOBS:=1}" "${PATCHES:=}" "${CONFIG:?}" "${DTBS:=}" "${LOCALVERSION:=}"
# The executor's job server, when there is one: -j on a command line would turn it off.
export MAKEFLAGS="${MAKEFLAGS:--j$JOBS}"

export ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
export LOCALVERSION
export KBUILD_BUILD_TIMESTAMP KBUILD_BUILD_VERSION=1 KBUILD_BUILD_USER=boardwright KBUILD_BUILD_HOST=boardwright
KBUILD_BUILD_TIMESTAMP=$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %e %H:%M:%S UTC %Y')
# Overlays of the board and of the user refer to labels, so device trees carry their symbols.
export DTC_FLAGS=-@
# The environment is a copy of a locked root: its files' times say nothing, the compiler's bytes do.
export CCACHE_COMPILERCHECK=content

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }

kbuild() {
    make -C /tree/src O=/tree/build --no-print-directory \
        CC='ccache aarch64-linux-gnu-gcc' HOSTCC='ccache gcc' "$@"
}

# --- Source: unpack, or take the kept tree --------------------------------------------------------
# The kept tree belongs to one source and one set of packages: make does not see a changed tool.
identity=$(cat /in/source /var/lib/dpkg/status | sha256sum | cut -d' ' -f1)
if [ "$(tree open --identity "$identity")" = fresh ]; then
    echo "  UNPACK  $(dpkg-deb --show --showformat='${Package} ${Version}' /in/source)"
    mkdir /tree/src /tree/build
    dpkg-deb --fsys-tarfile /in/source |
        tar -x --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ --strip-components=1 --no-same-owner -C /tree/src
else
    echo "  KEPT    /tree: only what changed is compiled"
fi

# shellcheck disable=SC2086 # a list of topics
tree apply --patches /in/patches --stage /work/stage $PATCHES

# --- Configuration: allnoconfig, the fragments in order, then proof that every line stuck ---------
# shellcheck disable=SC2086 # a list of files
(cd /in/config && cat -- $CONFIG) >/work/asked.config
kbuild -s KCONFIG_ALLCONFIG=/work/asked.config allnoconfig >/work/kconfig.log 2>&1 || {
    cat /work/kconfig.log >&2
    exit 1
}
# shellcheck disable=SC2086
(cd /in/config && python3 /in/sealed/kconfig.py check --kconfig-tree /tree/src --config /tree/build/.config $CONFIG) || {
    # Configuring again changes no object, so the tree is as good as it was.
    tree close
    exit 1
}

# --- Compile --------------------------------------------------------------------------------------
# shellcheck disable=SC2086
if ! kbuild Image modules $DTBS 2>/work/errors.log; then
    # make removes the target of a command that failed; what it finished is good, and somebody will
    # want to try a corrected patch in this tree.
    sync -f /tree
    tree close
    cat /work/errors.log >&2
    exit 1
fi
cat /work/errors.log >&2

# --- Install --------------------------------------------------------------------------------------
release=$(kbuild -s kernelrelease)
kbuild -s modules_install INSTALL_MOD_PATH=/work/root/usr INSTALL_MOD_STRIP=1
rm -f "/work/root/usr/lib/modules/$release"/{build,source}
depmod -b /work/root/usr -e -F /tree/build/System.map "$release" >/work/depmod.log 2>&1
if [ -s /work/depmod.log ]; then
    cat /work/depmod.log >&2
    exit 1
fi

tar -C /work/root -cf /out/modules.tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w usr
install -m 644 /tree/build/arch/arm64/boot/Image /tree/build/System.map /out
install -m 644 /tree/build/.config /out/config
for dtb in $DTBS; do
    install -D -m 644 "/tree/build/arch/arm64/boot/dts/$dtb" "/out/dtbs/$dtb"
done
echo "$release" >/out/release

sync -f /tree
tree close
echo "  DONE    $release, $(stat -c %s /out/Image) bytes, $(tar -tf /out/modules.tar | grep -c '\.ko$') modules"
