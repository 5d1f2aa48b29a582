# Cross-build a meson project of ours for arm64, as a .deb.
#
# In:   /in/repository (what it reads of the repository), /in/sysroot/*.deb, /in/options (lines -Dname=value), /in/control, /in/copyright;
#       /in/sealed/{meson_cross.sh,mesondeb.py}; PROJECT (its directory there), BESIDE (globs), DEB (the name of the .deb)
# Out:  /out/$DEB, stripped, without what BESIDE names

: "${JOBS:=1}" "${BESIDE:=}" "${DEB:?}" "${PROJECT:?}"
. /in/sealed/meson_cross.sh

mkdir sysroot
for deb in /in/sysroot/*.deb; do
    dpkg-deb --extract "$deb" sysroot
done
cross_file /work/cross.ini /work/sysroot ""
mapfile -t options </in/options
said() { # LOG COMMAND...: its output only when it fails
    local log=$1
    shift
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
}
said meson.log meson setup --cross-file cross.ini "${meson_options[@]}" -Dc_args=-ffile-prefix-map=/in/repository=. \
    "${options[@]}" build "/in/repository/$PROJECT"
said ninja.log ninja -C build -j "$JOBS"
echo "  BUILT   $(grep -c '^\[' ninja.log) commands run"
DESTDIR=/work/tree said install.log meson install -C build --no-rebuild
python3 /in/sealed/mesondeb.py --tree tree --copyright /in/copyright --sysroot /in/sysroot --control /in/control \
    --beside "$BESIDE" --deb "/out/$DEB"
