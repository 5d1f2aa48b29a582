# Stand-ins for the AX650N's closed pieces on the emulated board: the partition /soc, and the models of /opt.
#
# In:   /in/ax_cmm.ko, /in/native/ (the run-time of the native tests), /in/load (auto_load_all_drv.sh),
#       /in/says/ (scripts that talk as the vendor's runners do);
#       MODELS (shapes KxD1xD2)
# Out:  /out/soc.tar, /out/opt.tar

: "${MODELS:?}"
models=opt/data/ive/matmul/matmul_models
mkdir -p soc/ko soc/lib soc/scripts $models
cp /in/ax_cmm.ko soc/ko
install -m 755 /in/load soc/scripts/auto_load_all_drv.sh
echo "Stand-ins of boardwright for the emulated board; nothing of AXERA's is here." | tee soc/README >opt/README

# One library under both names: it counts its calls across them. Models are texts that name their shape.
aarch64-linux-gnu-gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -ffile-prefix-map=/in=. \
    -Wl,-soname,libax_sys.so -o soc/lib/libax_sys.so /in/native/npu-matmul/tests/fake/ax_library.c
ln -s libax_sys.so soc/lib/libax_engine.so
for model in $MODELS; do
    IFS=x read -r k d1 d2 <<<"$model"
    printf '{"matmul": "s8", "k": %d, "d1": %d, "d2": %d}' "$k" "$d1" "$d2" \
        >"$models/v1_matmul_npu3_s8_${k}_${d1}_${d2}_$((k * d1 * d2 / 1024)).axmodel"
done

for runner in /in/says/*; do
    install -D -m 755 "$runner" "opt/boardwright/$(basename "$runner")-says"
done

for part in soc opt; do
    tar -C "$part" -cf "/out/$part.tar" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w .
done
