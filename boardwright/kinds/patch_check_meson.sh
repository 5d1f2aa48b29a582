# Compile the objects that patches of a meson program touch; new warnings count as errors.
#
# In:   what meson.sh has, and /in/sealed/{patchcheck.py,patchcc.sh}; TOPICS (all to apply), CHECKED (whose
#       objects)
# Out:  /out/result.json: a row an object with its verdict. Patches that do not compile are a result too.
# Kept: /tree/src, /tree/sysroot and /tree/build

: "${JOBS:=1}" "${TOPICS:=}" "${CHECKED:=}"
export CCACHE_COMPILERCHECK=content SAID=/work/said
mkdir -p "$SAID" /work/pristine
triplet=aarch64-linux-gnu

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }
check() { PYTHONPATH=/in python3 -m sealed.patchcheck "$@"; }
. /in/sealed/debian_source.sh

compile() { # OBJECT...: again, whatever is there; what the compiler says is kept in $SAID
    (cd /tree/build && rm -f -- "$@")
    ninja -C /tree/build -j "$JOBS" -k 0 "$@" >/work/ninja.log 2>&1 || true
}

# --- Source, libraries, configuration: as meson.sh does ---------------------------------------------
identity=$(cat /in/source/* /in/sysroot/* /in/options /var/lib/dpkg/status | sha256sum | cut -d' ' -f1)
if [ "$(tree open --identity "$identity")" = fresh ]; then
    echo "  UNPACK  $(debian_version /in/source)"
    unpack_debian /in/source /tree/src
    mkdir /tree/sysroot
    for deb in /in/sysroot/*.deb; do
        dpkg-deb --extract "$deb" /tree/sysroot
    done
fi
# shellcheck disable=SC2086 # lists of topics, here and below
tree apply --patches /in/patches --stage /work/stage $TOPICS

libraries=/tree/sysroot/usr/lib/$triplet
export PKG_CONFIG_SYSROOT_DIR=/tree/sysroot
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:/tree/sysroot/usr/share/pkgconfig
cat >/work/cross.ini <<INI
[binaries]
c = ['sh', '/in/sealed/patchcc.sh', '$triplet-gcc']
cpp = ['sh', '/in/sealed/patchcc.sh', '$triplet-g++']
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
if [ ! -f /tree/build/build.ninja ]; then
    mapfile -t options </in/options
    meson setup --cross-file /work/cross.ini --prefix /usr --libdir "lib/$triplet" --sysconfdir /etc \
        --buildtype release --wrap-mode nodownload -Db_ndebug=true "${options[@]}" /tree/build /tree/src \
        >/work/meson.log 2>&1 || {
        cat /work/meson.log >&2
        rm -rf /tree/build
        tree close
        exit 1
    }
fi
# A patch may change meson.build: the list of objects must be that of the patched source.
ninja -C /tree/build build.ninja >/work/ninja.log 2>&1 || {
    cat /work/ninja.log >&2
    tree close
    exit 1
}

# --- Compile; an object with messages also without the patches --------------------------------------
check objects --source /tree/src --patches /in/patches --commands /tree/build/compile_commands.json \
    $CHECKED >/work/objects.json
verdicts() {
    check judge --objects /work/objects.json --build /tree/build --said /work/said --pristine /work/pristine
}
mapfile -t objects < <(check names --objects /work/objects.json)
echo "  OBJECTS ${#objects[@]}"
[ "${#objects[@]}" -eq 0 ] || compile "${objects[@]}"
verdicts >/work/first.json
mapfile -t doubtful < <(check names --objects /work/first.json --states warning error)
if [ "${#doubtful[@]}" -gt 0 ]; then
    tree apply --patches /in/patches --stage /work/stage
    SAID=/work/pristine compile "${doubtful[@]}"
fi
verdicts >/out/result.json
sync -f /tree
tree close
