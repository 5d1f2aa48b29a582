# Device-tree overlays of the board, compiled and applied to its tree as a test. REQUIRED: those the boot
# script applies.
# shellcheck disable=SC2086 # a list of names
exec python3 /in/sealed/dtoverlay.py --base /in/dtb --overlays /in/overlays --out /out --required $REQUIRED
