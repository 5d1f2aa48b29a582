"""Which loader ran, and from which medium: an older one in SPI flash or eMMC may run instead of the image's.

U-Boot's SPL prints ``Trying to boot from MMC2`` before each medium it tries (``common/spl/spl.c``); the
last one before BL31 or U-Boot proper is where that came from. On RK3588, MMC1 is eMMC and MMC2 the SD card:
the SPL counts from 1 what the device tree's aliases call mmc0 (sdhci) and mmc1 (sdmmc)
(``rk3588-rock-5b.dts``). AXERA's U-Boot says ``boot from emmc``, and when its environment has no ``bootargs``
that it takes its own default (``sparse_img.c``, ``get_part_info``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

MEDIA = {
    "MMC1": "eMMC", "MMC2": "SD card", "SPI": "SPI flash", "NVME": "NVMe", "BOOTROM": "boot ROM", "RAM":
    "RAM", "USB": "USB", "emmc": "eMMC", "sd": "SD card", "usb": "USB", "nand": "NAND", "nor": "NOR flash",
}  # fmt: skip
_STAGES = {
    "ddr": re.compile(r"^DDR (?:V(\d[\w.]{0,16})|([0-9a-f]{10} [\w.:-]{1,60}))"),
    "tpl": re.compile(r"^U-Boot TPL (\S{1,80})"),
    "spl": re.compile(r"^U-Boot SPL (\S{1,80})"),
    "bl31": re.compile(r"^NOTICE: {1,3}BL31: (v[\w.():/-]{1,100})"),
    "u-boot": re.compile(r"^U-Boot (\d{4}\.\d\d\S{0,80})"),
}
_TRYING = re.compile(r"^Trying to boot from (\w{1,20})")
_AX = re.compile(r"\bboot from (emmc|sd|usb|nand|nor)\b")
_FAILED = re.compile(
    r"SPL: failed to boot from all boot devices|Please RESET the board|image header verify failed"
)
_CHIP = re.compile(r"\b(AX\d{3}\w{0,3})_CHIP\b")
_REASON = re.compile(r"^boot_reason: {0,2}(0x[0-9a-fA-F]{1,8}|\d{1,9})\b")
_DEFAULT_BOOTARGS = "bootargs not found in env"
_FWVER = re.compile(r"fwver: (v[\w.]{1,20})")


@dataclass(frozen=True, slots=True)
class Loader:
    """``versions``: by stage (``ddr``, ``tpl``, ``spl``, ``bl31``, ``u-boot``), as printed. ``tried``: the
    media in order, as the loader names them; ``source``: the one it booted from; None: no line says.

    Only AXERA's loader tells ``chip``, ``reason`` (of the boot, a number) and ``default_bootargs``: that its
    environment had none.
    """

    versions: dict[str, str]
    tried: tuple[str, ...]
    source: str | None
    failed: str
    chip: str = ""
    reason: str = ""
    default_bootargs: bool = False

    @property
    def medium(self) -> str:
        """In words; the loader's own when there are none for it."""
        return MEDIA.get(self.source, self.source) if self.source else "unknown"


def parse(console: bytes | str) -> Loader:
    """The last boot in a console's output."""
    versions: dict[str, str] = {}
    tried: list[str] = []
    source, failed, chip, reason, default_bootargs = None, "", "", "", False
    for line in lines(console):
        line = line.strip()
        stage = next(((n, hit) for n, pattern in _STAGES.items() if (hit := pattern.match(line))), None)
        if stage is not None:
            name, hit = stage
            if name in versions and name in ("ddr", "tpl", "spl"):  # the board starts again
                versions, tried, source, failed = {}, [], None, ""
                chip, reason, default_bootargs = "", "", False
            versions[name] = next(group for group in hit.groups() if group)
            if name in ("bl31", "u-boot") and tried:
                source = source or tried[-1]
        elif trying := _TRYING.match(line):
            if len(tried) < 100:
                tried.append(trying[1])
        elif vendor := _AX.search(line):
            source = vendor[1]
            tried.append(vendor[1])
        elif version := _FWVER.search(line):
            versions.setdefault("spl-fwver", version[1])
        elif named := _CHIP.search(line):
            chip = named[1]
        elif why := _REASON.match(line):
            reason = why[1]
        elif _DEFAULT_BOOTARGS in line:
            default_bootargs = True
        if wrong := _FAILED.search(line):
            failed = wrong[0]
    return Loader(versions, tuple(tried[:100]), source, failed, chip, reason, default_bootargs)


def differs(loader: Loader, wanted: str) -> str | None:
    """Why the running U-Boot is not the manifest's version ``wanted``; None: it is."""
    found = loader.versions.get("u-boot")
    if found is None:
        return "no U-Boot line on the console: another loader, or the console was not yet heard"
    if found == wanted or found.startswith((f"{wanted}-", f"{wanted}+")):
        return None
    return f"U-Boot {found} runs, from {loader.medium}; the image has {wanted}"
