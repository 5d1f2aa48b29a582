"""Layouts that boards with an AX650 leave the vendor with, by name, each with where it was read.

Nothing here was read from a board: an owner compares with ``/proc/cmdline`` first. ``confidence`` is
``source`` for what the vendor's own sources say, ``reported`` for what somebody reports, and ``inferred`` for
what follows from either by reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from boardwright.errors import InputError
from boardwright.layout import blkdevparts
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.schema.units import Size

MIB = 2**20
COMMON = "U-Boot 2020.04 of the AX650 SDK, include/configs/ax650_common.h"
PROJECT = "AX650 SDK V1.45.0_P39, build/projects/AX650_pipro_box.mak"
_DATA = {"param": "/param", "soc": "/soc", "opt": "/opt"}
"""Where the shipped fstab mounts them (SDK, rootfs/rootfs/etc/fstab and fstab_optee)."""
_RAW = {name: contents for contents, name in blkdevparts.NAMES.items()}


@dataclass(frozen=True, slots=True)
class Preset:
    """A layout as shipped. ``root``: the partition's number. ``text``: as the command line has it.

    ``word``: which word of the command line that is. ``linux`` and ``cmm``: the split of an 8 GiB board, in
    bytes, where it is known.
    """

    name: str
    title: str
    root: int
    text: str
    source: str
    confidence: Literal["source", "reported", "inferred"] = "source"
    word: Literal["blkdevparts", "mtdparts"] = "blkdevparts"
    linux: Size | None = None
    cmm: Size | None = None

    def table(self, size: int | None = None) -> Table:
        """The layout on a medium of ``size`` bytes, or on one just large enough."""
        return table(self.text, size)


def table(text: str, size: int | None = None) -> Table:
    """The table that a ``blkdevparts=`` value names, by the meaning the SDK gives to names.

    Raises ``InputError`` for text that is none, a name twice, or an end behind ``size``.
    """
    device, entries = blkdevparts.parse(text)
    found: list[PlacedPartition] = []
    offset = 0
    for number, entry in enumerate(entries, start=1):
        if entry.size is None and size is None:
            raise InputError(f"blkdevparts: {entry.name!r} takes the rest of a device of unknown size")
        length = int(size or 0) - offset if entry.size is None else entry.size
        if any(entry.name == other.name for other in found):
            raise InputError(f"blkdevparts: word {number}: {entry.name!r} is there already")
        if length <= 0 or (size is not None and offset + length > size):
            raise InputError(
                f"blkdevparts: {entry.name!r} has {length} bytes from byte {offset} on, "
                f"the device {size if size is not None else 'more than 0'}"
            )
        contents, filesystem, mount = _meaning(entry.name)
        found.append(PlacedPartition(entry.name, offset, length, number, filesystem, contents, False, mount))
        offset += length
    return Table(offset if size is None else size, (), tuple(found), device)


def _meaning(name: str) -> tuple[str, str, str | None]:
    """Contents, file system and mount point; the second of a pair (``_B``) is mounted by nobody."""
    plain, second = name.removesuffix("_B"), name.endswith("_B")
    if plain == "rootfs":
        return "rootfs", "ext4", None if second else "/"
    if plain in _DATA:
        return "data", "ext4", None if second else _DATA[plain]
    return _RAW.get(plain, "other"), "raw", None


def _front(optee: bool, second: bool = False) -> Iterator[str]:
    yield from ("1536K(uboot)", "1536K(uboot_bk)", "1M(env)")
    for size, name in (("20M", "param"), ("6M", "logo"), ("1M", "dtb"), ("64M", "kernel"), ("1M", "atf")):
        yield f"{size}({name})"
        if second:
            yield f"{size}({name}_B)"
    if optee:
        yield "1M(optee)"
        if second:
            yield "1M(optee_B)"


def _emmc(*rest: str, optee: bool, second: bool = False) -> str:
    return "mmcblk0:" + ",".join([*_front(optee, second), *rest])


def _pair(
    name: str, title: str, root: int, *rest: str, second: bool = False, source: str = COMMON,
    linux: Size | None = None, cmm: Size | None = None,
) -> Iterator[Preset]:  # fmt: skip
    """With and without OP-TEE: one partition less (two of an A/B layout), and root's number less."""
    yield Preset(name, title, root, _emmc(*rest, optee=True, second=second), source, linux=linux, cmm=cmm)
    fewer = root - (2 if second else 1)
    text = _emmc(*rest, optee=False, second=second)
    yield Preset(f"{name}-no-optee", f"{title}, without OP-TEE", fewer, text, source, linux=linux, cmm=cmm)


def _all() -> Iterator[Preset]:
    yield from _pair(
        "pipro-box", "Maix-IV, M4N-Dock, AXera-Pi Pro", 10,
        "24576M(rootfs)", "512M(soc)", "4096M(opt)",
        source=f"{COMMON}, BOOTARGS_PIPRO; {PROJECT}", linux=Size(4096 * MIB), cmm=Size(4096 * MIB),
    )  # fmt: skip
    yield from _pair("emmc", "AX650_emmc, the SDK's default", 10, "4736M(rootfs)", "384M(soc)", "1900M(opt)")
    yield from _pair("master", "AX650_master", 10, "2048M(rootfs)", "1024M(soc)", "4096M(opt)")
    yield from _pair(
        "ab", "A/B updates", 16,
        "128M(rootfs)", "128M(rootfs_B)", "512M(soc)", "512M(soc_B)", "4864M(opt)", second=True,
    )  # fmt: skip
    recovery = ("1M(recovery_dtb)", "74M(recovery)")
    yield Preset(
        "recovery", "with a recovery system", 12,
        _emmc(*recovery, "24576M(rootfs)", "512M(soc)", "4096M(opt)", optee=True),
        "a report of two more partitions in front of root; that the rest is as in pipro-box is inferred",
        confidence="inferred",
    )  # fmt: skip
    yield Preset(
        "pyramid", "M5Stack AI Pyramid (AX650X)", 12,
        _emmc(*recovery, "30380032K(rootfs)", optee=True),
        "QEMU's out-of-tree machine ax650x-pyramid, docs/system/arm/ax650x-pyramid.rst",
        confidence="reported",
    )  # fmt: skip
    for optee in (True, False):
        entries = "20M(param),6M(logo),1M(dtb),64M(kernel),1M(atf)," + ("1M(optee)," if optee else "")
        yield Preset(
            "ssd" if optee else "ssd-no-optee",
            "NVMe disk; U-Boot and environment in SPI NOR" + ("" if optee else ", without OP-TEE"),
            7 if optee else 6,
            f"nvme0n1:{entries}2048M(rootfs),1024M(soc),4096M(opt)",
            COMMON,
        )
    yield Preset(
        "nand", "SPI NAND with UBIFS", 7,
        "spi5.0:4M(uboot),768K(env),1M(atf),1M(dtb),32M(kernel),512K(param),192M(rootfs)",
        f"{COMMON}, BOOTARGS_SPINAND", word="mtdparts",
    )  # fmt: skip


PRESETS: dict[str, Preset] = {preset.name: preset for preset in _all()}
