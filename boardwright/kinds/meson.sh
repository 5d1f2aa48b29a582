# Cross-build a program for arm64 with meson: Debian's source package, our patches, the libraries of a lock.
#
# In:   /in/source/* (the source package), /in/sysroot/*.deb, /in/patches/<topic>/{series,*.patch},
#       /in/options (lines -Dname=value), /in/sealed/{patchtree,mesondeb}.py, and /in/control for a .deb;
#       PATCHES, BESIDE (globs, one a line), DEB (the name of the .deb, or nothing)
# Out:  /out/tree.tar, everything that was installed, with symbol tables and without debug information;
#       /out/$DEB, stripped, without what BESIDE names
# Kept: /tree/src, /tree/sysroot and /tree/build; the paths are part of ccache's keys, as for kernels.

: "${JOBS:=1}" "${PATCHES:=}" "${BESIDE:=}" "${DEB:=}"
export CCACHE_COMPILERCHECK=content
triplet=aarch64-linux-gnu

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }
. /in/sealed/debian_source.sh

# --- Source and libraries: unpack, or take the kept tree -------------------------------------------
identity=$(cat /in/source/* /in/sysroot/* /in/options /var/lib/dpkg/status /step | sha256sum | cut -d' ' -f1)
if [ "$(tree open --identity "$identity")" = fresh ]; then
    echo "  UNPACK  $(debian_version /in/source)"
    unpack_debian /in/source /tree/src
    mkdir /tree/sysroot
    for deb in /in/sysroot/*.deb; do
        dpkg-deb --extract "$deb" /tree/sysroot
    done
else
    echo "  KEPT    /tree: only what changed is compiled"
fi

# shellcheck disable=SC2086 # a list of topics
tree apply --patches /in/patches --stage /work/stage $PATCHES

# --- Configure -------------------------------------------------------------------------------------
libraries=/tree/sysroot/usr/lib/$triplet
export PKG_CONFIG_SYSROOT_DIR=/tree/sysroot
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:/tree/sysroot/usr/share/pkgconfig
cat >/work/cross.ini <<INI
[binaries]
c = ['ccache', '$triplet-gcc']
cpp = ['ccache', '$triplet-g++']
ar = '$triplet-gcc-ar'
strip = '$triplet-strip'
pkg-config = 'pkg-config'
[built-in options]
c_link_args = ['-Wl,-rpath-link,$libraries']
cpp_link_args = ['-Wl,-rpath-link,$libraries']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
INI
failed() { # make and ninja remove what a failed command left; the tree is good for a corrected patch
    sync -f /tree
    tree close
    exit 1
}
if [ ! -f /tree/build/build.ninja ]; then
    mapfile -t options </in/options
    meson setup --cross-file /work/cross.ini --prefix /usr --libdir "lib/$triplet" --sysconfdir /etc \
        --buildtype release --wrap-mode nodownload -Db_ndebug=true "${options[@]}" /tree/build /tree/src \
        >/work/meson.log 2>&1 || {
        cat /work/meson.log >&2
        rm -rf /tree/build
        failed
    }
fi

# --- Compile and install -----------------------------------------------------------------------------
ninja -C /tree/build -j "$JOBS" >/work/ninja.log 2>&1 || {
    grep -A30 '^FAILED' /work/ninja.log >&2 || tail -n 40 /work/ninja.log >&2
    failed
}
echo "  BUILT   $(grep -c '^\[' /work/ninja.log) commands run"
DESTDIR=/work/tree meson install -C /tree/build --no-rebuild >/work/install.log 2>&1 || {
    cat /work/install.log >&2
    failed
}
sync -f /tree
tree close

# Symbol tables stay here: tools that name a site in a library read them. The .deb is stripped.
find /work/tree -type f -exec sh -c 'head -c4 "$1" | grep -q ELF' _ {} \; -print0 |
    xargs -0 -r $triplet-strip --strip-debug
tar -C /work/tree -cf /out/tree.tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w .
if [ "$DEB" ]; then
    python3 /in/sealed/mesondeb.py --tree /work/tree --source /tree/src --sysroot /in/sysroot \
        --control /in/control --beside "$BESIDE" --deb "/out/$DEB"
fi
