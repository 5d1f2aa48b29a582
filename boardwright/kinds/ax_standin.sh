# Stand-ins for the AX650N's closed pieces on the emulated board: the partition /soc and the models of /opt.
#
# In:   /in/source (.deb of linux-source-X.Y), /in/kernel.config, /in/patches/<topic>/{series,*.patch},
#       /in/module/ (Kbuild and C), /in/native/ (the library of the tests), /in/load (auto_load_all_drv.sh),
#       /in/sealed/patchtree.py; PATCHES, LOCALVERSION
# Out:  /out/soc.tar, /out/opt.tar
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
mkdir -p /work/module soc/ko soc/lib soc/scripts opt/data/ive/matmul/matmul_models
cp /in/module/Kbuild /in/module/*.c /work/module
kbuild -s M=/work/module KBUILD_MODPOST_WARN=1 KCFLAGS=-Werror modules
sync -f /tree
tree close
aarch64-linux-gnu-strip --strip-debug -o soc/ko/ax_cmm.ko module/ax_cmm.ko

# --- The run-time: one library under both names, and models that name their shape ----------------------
# gcc's -Wconversion and what it warns of are the native tests' business (native/npu-matmul/tests/fake).
aarch64-linux-gnu-gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -ffile-prefix-map=/in=. \
    -o soc/lib/libax_engine.so /in/native/npu-matmul/tests/fake/ax_library.c
cp soc/lib/libax_engine.so soc/lib/libax_sys.so
for model in $MODELS; do
    IFS=x read -r k d1 d2 <<<"$model"
    printf '{"matmul": "s8", "k": %d, "d1": %d, "d2": %d}' "$k" "$d1" "$d2" \
        >"opt/data/ive/matmul/matmul_models/v1_matmul_npu3_s8_${k}_${d1}_${d2}_$((k * d1 * d2 / 1024)).axmodel"
done
install -m 755 /in/load soc/scripts/auto_load_all_drv.sh
echo "Stand-ins of boardwright for the emulated board; nothing of AXERA's is here." | tee soc/README >opt/README

for part in soc opt; do
    tar -C "$part" -cf "/out/$part.tar" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w .
done
