# Cross-build a program for arm64 with meson: Debian's source package, our patches, the libraries of a lock.
#
# In:   /in/source/* (the source package), /in/sysroot/*.deb, /in/patches/<topic>/{series,*.patch},
#       /in/options (lines -Dname=value), /in/control for a .deb; /in/sealed/{meson_setup,meson_cross,debian_source}.sh,
#       /in/sealed/{patchtree,mesondeb}.py; PATCHES, BESIDE (globs, one a line), DEB (the name of the .deb, or nothing)
# Out:  /out/tree.tar, everything that was installed, with symbol tables and without debug information;
#       /out/$DEB, stripped, without what BESIDE names
# Kept: /tree/src, /tree/sysroot and /tree/build; the paths are part of ccache's keys, as for kernels.

: "${JOBS:=1}" "${PATCHES:=}" "${BESIDE:=}" "${DEB:=}"
. /in/sealed/meson_setup.sh

# shellcheck disable=SC2086 # a list of topics
meson_source $PATCHES
meson_configure "'ccache'"

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
    python3 /in/sealed/mesondeb.py --tree /work/tree --copyright /tree/src/debian/copyright --sysroot /in/sysroot \
        --control /in/control --beside "$BESIDE" --deb "/out/$DEB"
fi
