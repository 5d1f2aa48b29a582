# Compile the objects that patches of a meson program touch; new warnings count as errors.
#
# In:   what meson.sh has, and /in/sealed/{patchcheck.py,patchcc.sh}; TOPICS (all to apply), CHECKED (whose
#       objects)
# Out:  /out/result.json: a row an object with its verdict. Patches that do not compile are a result too.
# Kept: /tree/src, /tree/sysroot and /tree/build

: "${JOBS:=1}" "${TOPICS:=}" "${CHECKED:=}"
export SAID=/work/said
mkdir -p "$SAID" /work/pristine
. /in/sealed/meson_setup.sh

check() { PYTHONPATH=/in python3 -m sealed.patchcheck "$@"; }

compile() { # OBJECT...: again, whatever is there; what the compiler says is kept in $SAID
    (cd /tree/build && rm -f -- "$@")
    ninja -C /tree/build -j "$JOBS" -k 0 "$@" >/work/ninja.log 2>&1 || true
    # An object that does not compile is a result; a build that cannot even begin is none, and is not kept.
    if grep '^ninja: error' /work/ninja.log >&2; then
        failed
    fi
}

# --- Source, libraries, configuration ----------------------------------------------------------------
# shellcheck disable=SC2086 # lists of topics, here and below
meson_source $TOPICS
meson_configure "'sh', '/in/sealed/patchcc.sh'"
# A patch may change meson.build: the list of objects must be that of the patched source.
ninja -C /tree/build build.ninja >/work/ninja.log 2>&1 || {
    cat /work/ninja.log >&2
    failed
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
