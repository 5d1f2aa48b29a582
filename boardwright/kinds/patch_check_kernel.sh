# Compile the objects that kernel patches touch, and nothing else; new warnings count as errors.
#
# In:   /in/source (.deb of linux-source-X.Y), /in/patches/<topic>/{series,*.patch}, /in/config/*.config,
#       /in/sealed/{kconfig,patchcheck,patchtree}.py, patchcc.sh; TOPICS (all to apply), CHECKED (whose objects), CONFIG
# Out:  /out/result.json: a row an object with its verdict. Patches that do not compile are a result too.
# Kept: /tree/src and /tree/build, so that the next run compiles little but the objects themselves

: "${JOBS:=1}" "${TOPICS:=}" "${CHECKED:=}" "${CONFIG:?}"
export MAKEFLAGS="${MAKEFLAGS:--j$JOBS}"
export ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970' KBUILD_BUILD_USER=boardwright KBUILD_BUILD_HOST=boardwright
export CCACHE_COMPILERCHECK=content SAID=/work/said
mkdir -p "$SAID" /work/pristine

tree() { python3 /in/sealed/patchtree.py "$1" --tree /tree "${@:2}"; }
check() { PYTHONPATH=/in python3 -m sealed.patchcheck "$@"; }
kbuild() {
    make -C /tree/src O=/tree/build --no-print-directory \
        CC='sh /in/sealed/patchcc.sh aarch64-linux-gnu-gcc' HOSTCC='ccache gcc' "$@"
}
compile() { # OBJECT...: again, whatever is there; what the compiler says is kept in $SAID
    (cd /tree/build && rm -f -- "$@")
    kbuild -k "$@" >/work/make.log 2>&1 || true
}

# --- Source, patches, configuration: as kernel.sh does ----------------------------------------------
identity=$(cat /in/source /var/lib/dpkg/status | sha256sum | cut -d' ' -f1)
if [ "$(tree open --identity "$identity")" = fresh ]; then
    echo "  UNPACK  $(dpkg-deb --show --showformat='${Package} ${Version}' /in/source)"
    mkdir /tree/src /tree/build
    dpkg-deb --fsys-tarfile /in/source |
        tar -x --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' |
        tar -xJ --strip-components=1 --no-same-owner -C /tree/src
fi
# shellcheck disable=SC2086 # lists of topics and files, here and below
tree apply --patches /in/patches --stage /work/stage $TOPICS
(cd /in/config && cat -- $CONFIG) >/work/asked.config
check symbols --patches /in/patches $TOPICS >>/work/asked.config
{
    kbuild -s KCONFIG_ALLCONFIG=/work/asked.config allnoconfig
    kbuild prepare
} >/work/make.log 2>&1 || {
    cat /work/make.log >&2
    tree close
    exit 1
}
(cd /in/config && python3 /in/sealed/kconfig.py check --kconfig-tree /tree/src --config /tree/build/.config $CONFIG) || {
    tree close
    exit 1
}

# --- Compile; an object with messages also without the patches --------------------------------------
check objects --source /tree/src --patches /in/patches $CHECKED >/work/objects.json
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
