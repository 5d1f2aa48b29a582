# TF-A's BL31 and U-Boot for a Rockchip board, from the files of Debian's two source packages.
#
# In:   /in/u-boot, /in/firmware (.orig.tar.*, .debian.tar.*), /in/ddr.bin when the user supplied the
#       maker's DRAM initialisation; DEFCONFIG, PLATFORM
# Out:  /out/u-boot.itb (FIT of BL31, U-Boot and its device tree; sector 16384 of the medium), /out/config,
#       /out/loader.json, and only with /in/ddr.bin: /out/idbloader.img (DRAM initialisation and SPL; sector
#       64), /out/u-boot-rockchip-spi.bin (all of it, for the start of the SPI flash)
#
# The clock is nowhere in the bytes: both Makefiles, gcc and mkimage take SOURCE_DATE_EPOCH.

: "${DEFCONFIG:?}" "${PLATFORM:?}"

export CROSS_COMPILE=aarch64-linux-gnu-
export MAKEFLAGS="${MAKEFLAGS:--j${JOBS:-1}}"
# setuptools, which compiles U-Boot's libfdt for Python, has much to say about that package's metadata.
export PYTHONWARNINGS=ignore

# --- Source -----------------------------------------------------------------------------------------
# Of Debian's series, U-Boot's CVE-* matter to this board (DHCP, FIT signatures); the others are about
# other boards, tests and debug paths.
. /in/sealed/debian_source.sh
unpack_debian /in/firmware firmware
unpack_debian /in/u-boot u-boot

# --- BL31 -------------------------------------------------------------------------------------------
# BUILD_STRING would ask git.
echo "  TF-A    $(debian_version /in/firmware), $PLATFORM"
make -C firmware --no-print-directory -s PLAT="$PLATFORM" DEBUG=0 BUILD_STRING="$(debian_version /in/firmware)" bl31

# --- U-Boot: configuration, and proof that it can boot what we install ----------------------------
echo "  U-BOOT  $(debian_version /in/u-boot), $DEFCONFIG"
# "U-Boot 2025.01-3+deb13u1-boardwright": a console log then says whose loader ran.
LOCALVERSION="-$(debian_version /in/u-boot | cut -d- -f2-)-boardwright"
export LOCALVERSION
uboot() { make -C u-boot O=/work/build --no-print-directory -s "$@"; }
uboot "$DEFCONFIG"

# A GPT with FAT and ext4, extlinux.conf with fdtdir and fdtoverlays, on SD, eMMC, NVMe and USB.
needed='SPL_LOAD_FIT SPL_ATF SPL_MMC SPL_SPI_FLASH_SUPPORT ROCKCHIP_EXTERNAL_TPL
    BOOTSTD BOOTSTD_DEFAULTS BOOTMETH_EXTLINUX CMD_BOOTFLOW CMD_BOOTI OF_LIBFDT_OVERLAY
    EFI_PARTITION FS_FAT FS_EXT4 MMC_DW_ROCKCHIP MMC_SDHCI_ROCKCHIP
    PCIE_DW_ROCKCHIP PHY_ROCKCHIP_SNPS_PCIE3 NVME_PCI USB_XHCI_HCD USB_EHCI_HCD USB_STORAGE'
missing=
for option in $needed; do
    grep -qx "CONFIG_$option=y" build/.config || missing+=" $option"
done
if [ "$missing" ]; then
    echo "error: $DEFCONFIG cannot boot an extlinux.conf from SD, eMMC, NVMe and USB; it lacks$missing" >&2
    exit 1
fi

# --- U-Boot -----------------------------------------------------------------------------------------
# binman stays strict: BINMAN_ALLOW_MISSING would let a FIT without BL31 pass. Without the blob it gets a
# stand-in, and nothing that holds the stand-in is delivered.
ddr=/in/ddr.bin
if [ ! -e "$ddr" ]; then
    ddr=/work/no-ddr.bin
    echo 'no DRAM initialisation' >"$ddr"
fi
uboot BL31="/work/firmware/build/$PLATFORM/release/bl31/bl31.elf" ROCKCHIP_TPL="$ddr" all

install -m 644 build/u-boot.itb /out
install -m 644 build/.config /out/config
if [ -e /in/ddr.bin ]; then
    install -m 644 build/idbloader.img build/u-boot-rockchip-spi.bin /out
fi

# --- What was made: versions as the binaries carry them ---------------------------------------------
UBOOT=$(debian_version /in/u-boot) FIRMWARE=$(debian_version /in/firmware) python3 - <<'PYTHON'
import hashlib
import json
import os
import re
from pathlib import Path

UBOOT_FIT, SPL, DDR = Path("/out/u-boot.itb"), Path("/work/build/spl/u-boot-spl.bin"), Path("/in/ddr.bin")


def text(file, pattern):
    found = re.search(pattern, file.read_bytes())
    if found is None:
        raise SystemExit(f"error: {file} holds no text like {pattern.decode()}")
    return found[0].decode()


def source(version, directory):
    return {"debian": version, "patches": Path(f"/work/{directory}/debian/applied").read_text().split()}


reason = (
    "needs the maker's DRAM initialisation, which may not be redistributed; without it the image holds "
    "no loader and the board starts it with the U-Boot in its SPI flash"
)
report = {
    "versions": {
        "spl": text(SPL, rb"U-Boot SPL \d{4}\.[^\0\n]*"),
        "u-boot": text(UBOOT_FIT, rb"U-Boot \d{4}\.[^\0\n]*"),
        "bl31": text(UBOOT_FIT, rb"v\d+\.\d+[^\0\n]*\(release\):[^\0\n]*"),
    },
    "sources": {
        "u-boot": source(os.environ["UBOOT"], "u-boot"),
        "arm-trusted-firmware": source(os.environ["FIRMWARE"], "firmware"),
    },
    "ddr": hashlib.sha256(DDR.read_bytes()).hexdigest() if DDR.exists() else None,
    "left_out": {} if DDR.exists() else {"idbloader": reason},
}
Path("/out/loader.json").write_text(json.dumps(report, indent=1) + "\n")
for name, found in report["versions"].items():
    print(f"  FOUND   {name}: {found}")
PYTHON
