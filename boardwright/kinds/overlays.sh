# Device-tree overlays of the board (/in/overlays/*.dtso), compiled and applied to its tree (/in/dtb) as a
# test: /out/overlays/*.dtbo and /out/overlays.json. REQUIRED: those the boot script applies, in its order.
# The sources have plain numbers with their meaning beside them: no preprocessor, no kernel headers.
: "${REQUIRED:=}"
cd /in
# shellcheck disable=SC2086 # a list of names
exec python3 -S -m sealed.dtoverlay --base /in/dtb --overlays /in/overlays --out /out --work /work \
    --required $REQUIRED
