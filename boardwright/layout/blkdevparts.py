"""Partitions as ``blkdevparts=`` text: contiguous from byte 0 in list order, with no table on the medium.

The kernel reads it (``block/partitions/cmdline.c``, ``Documentation/block/cmdline-partition.rst``), and so
does the AX650's U-Boot, from the same ``bootargs`` and without gaps (U-Boot 2020.04 of the AX650 SDK,
``cmd/axera/download/sparse_img.c``, ``get_part_info``). Offsets and sizes are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boardwright.errors import InputError
from boardwright.layout.extents import (
    SECTOR,
    SMALLEST,
    KeyPath,
    LayoutError,
    PlacedPartition,
    Table,
    too_small,
)
from boardwright.schema.units import Size

if TYPE_CHECKING:
    from boardwright.schema.board import Disk, Partition

NAME_BYTES = 31
"""``BDEVNAME_SIZE`` less the final NUL (kernel 5.15, ``block/partitions/cmdline.c``); U-Boot's too."""
MOST = 31
"""``CONFIG_MMC_BLOCK_MINORS=32`` of the vendor's kernel: the disk and 31 partitions."""
ENVIRONMENT = 0x20000
"""Bytes of U-Boot's environment (``CONFIG_ENV_SIZE``, AX650_pipro_box_defconfig)."""

NAMES = {
    "uboot": "uboot",
    "uboot-backup": "uboot_bk",
    "env": "env",
    "logo": "logo",
    "dtb": "dtb",
    "kernel": "kernel",
    "atf": "atf",
    "optee": "optee",
}
"""By what name U-Boot looks up a partition with these contents (``cmd/axera/boot/axera_boot.c``)."""
NEEDED = ("uboot", "env", "dtb", "kernel", "atf", "rootfs")
"""Without these the board does not boot, or keeps no environment."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ENTRY = re.compile(r"(?P<size>[0-9]{1,15}|-)(?P<unit>[KMG]?)\((?P<name>[^()]*)\)")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_DEVICE = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One word of the text. ``size``: bytes; None for ``-``, what is left."""

    name: str
    size: int | None


def text(partitions: Iterable[PlacedPartition], device: str) -> str:
    """The value of ``blkdevparts=``, sizes exact and in the units that the SDK writes (M, else K)."""
    return f"{device}:" + ",".join(f"{size_text(p.size)}({p.name})" for p in partitions)


def size_text(size: int) -> str:
    for unit in ("M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def parse(value: str) -> tuple[str, tuple[Entry, ...]]:
    """The device and its entries. Raises ``InputError`` naming the word that is wrong.

    One device, no offsets (``@``) and no flags (``ro``): the board's U-Boot knows neither. A comma at the
    end means nothing: the SDK's own default for AX650_emmc has one.
    """
    device, colon, words = value.removesuffix(",").partition(":")
    if not colon or not _DEVICE.fullmatch(device):
        raise InputError(f"blkdevparts: expected 'mmcblk0:' and partitions, found {value[:60]!r}")
    entries: list[Entry] = []
    for number, word in enumerate(words.split(","), start=1):
        match = _ENTRY.fullmatch(word)
        if match is None or not _NAME.fullmatch(match["name"]) or (match["size"] == "-" and match["unit"]):
            raise InputError(
                f"blkdevparts: word {number}: expected such as '512M(soc)', found {word[:60]!r}",
                hint="U-Boot on this board knows no offsets, flags or second device",
            )
        size = None if match["size"] == "-" else int(match["size"]) * _UNITS[match["unit"]]
        if entries and entries[-1].size is None:
            raise InputError(f"blkdevparts: word {number - 1} takes the rest, yet {match['name']!r} follows")
        entries.append(Entry(match["name"], size))
    return device, tuple(entries)


def faults(disk: Disk, partitions: Sequence[Partition]) -> list[LayoutError]:
    """Everything wrong with a layout. Positions are judged once names and sizes are right."""
    found = [*_disk_faults(disk), *_set_faults(partitions)]
    for index, partition in enumerate(partitions):
        found += _partition_faults(disk, partitions, index, partition)
    return found or list(_position_faults(disk, partitions))


def placed(disk: Disk, partitions: Sequence[Partition]) -> Table:
    """The table; whether it can be is for :func:`faults` to say."""
    offset, found = 0, []
    for number, p in enumerate(partitions, start=1):
        size = int(disk.size) - offset if p.size == "rest" else int(p.size)
        mount = "/" if p.contents == "rootfs" else p.mount
        found.append(PlacedPartition(p.name, offset, size, number, p.filesystem, p.contents, p.grow, mount))
        offset += size
    return Table(int(disk.size), (), tuple(found), disk.device)


def _disk_faults(disk: Disk) -> Iterator[LayoutError]:
    if disk.align < SECTOR or disk.align & (disk.align - 1):
        yield LayoutError(
            ("disk", "align"),
            f"expected a power of two, 512B at least, found {disk.align}",
            hint="write 512KiB: the shipped partitions begin at multiples of it",
        )
        return
    if disk.size == 0 or disk.size % disk.align:
        yield LayoutError(
            ("disk", "size"),
            f"expected a multiple of {disk.align} (disk.align), more than 0, found {disk.size}",
            hint=f"write {Size(disk.size // disk.align * disk.align or disk.align)}",
        )
    if disk.first_partition not in (0, 16 * 2**20):
        yield LayoutError(
            ("disk", "first-partition"),
            f"expected none: blkdevparts begins at byte 0, found {disk.first_partition}",
            hint="leave the key out",
        )
    if disk.holes:
        yield LayoutError(
            ("disk", "holes"),
            f"expected none: blkdevparts knows no gaps, found {len(disk.holes)}",
            hint="make each of them a partition with filesystem: raw",
        )


def _set_faults(partitions: Sequence[Partition]) -> Iterator[LayoutError]:
    if len(partitions) > MOST:
        yield LayoutError(
            ("partitions", MOST),
            f"the kernel numbers {MOST} partitions of an eMMC, found {len(partitions)}",
            hint=f"leave out {len(partitions) - MOST}",
        )
    for contents in NEEDED:
        if not any(p.contents == contents for p in partitions):
            yield LayoutError(
                ("partitions",),
                f"expected a partition with contents: {contents}, found none in {len(partitions)}",
                hint="the shipped ones: `invoke layout --board maix-iv`, or boardwright/layout/presets.py",
            )
    for field in ("name", "contents", "mount"):
        seen: dict[str, int] = {}
        for index, partition in enumerate(partitions):
            value = getattr(partition, field)
            if value is None or (field == "contents" and value == "data"):
                continue
            if value in seen:
                yield LayoutError(
                    ("partitions", index, field),
                    f"expected each {field} once, found {value!r} at index {seen[value]} already",
                    hint="name one of them otherwise, or leave it out",
                )
            seen.setdefault(value, index)


def _partition_faults(
    disk: Disk, partitions: Sequence[Partition], index: int, partition: Partition
) -> Iterator[LayoutError]:
    where: KeyPath = ("partitions", index)
    name, contents = partition.name, partition.contents
    if not _NAME.fullmatch(name) or len(name) > NAME_BYTES:
        yield LayoutError(
            (*where, "name"),
            f"expected {NAME_BYTES} letters, digits, '_', '-' at most, found {name!r} ({len(name)})",
            hint="the kernel, U-Boot and the flash loader each keep a name in 32 bytes",
        )
    elif name != NAMES.get(contents, name):
        yield LayoutError(
            (*where, "name"),
            f"expected {NAMES[contents]!r}, by which U-Boot finds it, found {name!r}",
            hint=f"write name: {NAMES[contents]}",
        )
    if contents == "boot":
        yield LayoutError(
            (*where, "contents"),
            "expected no boot partition: this board boots from the partitions kernel and dtb, found boot",
            hint="leave the partition out",
        )
    elif partition.filesystem != (wanted := "ext4" if contents in ("rootfs", "data") else "raw"):
        yield LayoutError(
            (*where, "filesystem"),
            f"expected {wanted} for contents: {contents}, found {partition.filesystem}",
            hint=f"write filesystem: {wanted}",
        )
    yield from _mount_faults(partition, where)
    yield from _size_faults(disk, partition, (*where, "size"), index == len(partitions) - 1)


def _mount_faults(partition: Partition, where: KeyPath) -> Iterator[LayoutError]:
    if partition.mount is not None and (partition.mount == "/") != (partition.contents == "rootfs"):
        yield LayoutError(
            (*where, "mount"),
            f"expected / for contents: rootfs and only there, found {partition.mount} for "
            f"{partition.contents}",
            hint="write mount: /, or leave the key out" if partition.contents == "rootfs" else None,
        )
    elif partition.mount is not None and partition.filesystem == "raw":
        yield LayoutError((*where, "mount"), f"expected none for filesystem: raw, found {partition.mount}")
    if partition.grow and partition.filesystem == "raw":
        yield LayoutError((*where, "grow"), "expected false for filesystem: raw, found true")


def _size_faults(disk: Disk, partition: Partition, path: KeyPath, is_last: bool) -> Iterator[LayoutError]:
    size, name = partition.size, partition.name
    if size == "rest":
        if not is_last:
            yield LayoutError(
                path,
                f"partition {name!r} takes the rest of the disk, yet others follow it",
                hint="give it a size, or put it last",
            )
        return
    if size == 0:
        yield LayoutError(path, f"partition {name!r} has no size", hint=f"{disk.align} at least")
    elif not disk.align or disk.align & (disk.align - 1):
        return  # said of disk.align already
    elif size % disk.align:
        near = Size(max(int(size) // disk.align, 1) * disk.align)
        yield LayoutError(
            path, f"expected a multiple of {disk.align} (disk.align), found {size}", hint=f"write {near}"
        )
    elif size < SMALLEST.get(partition.filesystem, 0):
        yield too_small(partition, size, path, f"write {Size(SMALLEST[partition.filesystem])} or more")
    elif partition.contents == "env" and size < ENVIRONMENT:
        yield LayoutError(
            path, f"U-Boot's environment has {Size(ENVIRONMENT)}, found {size}", hint="write 1MiB, as shipped"
        )


def _position_faults(disk: Disk, partitions: Sequence[Partition]) -> Iterator[LayoutError]:
    """Those behind the first one that leaves the disk, or has no place left, leave it too."""
    for wanted, found in zip(partitions, placed(disk, partitions).partitions, strict=True):
        where: KeyPath = ("partitions", found.number - 1)
        if wanted.at is not None and found.offset != wanted.at:
            yield LayoutError(
                (*where, "at"),
                f"partition {found.name!r} must begin at byte {int(wanted.at)}, where the loader was built "
                f"to find it; those before it end at {found.offset}",
                hint=f"the partitions before it must have {wanted.at} together",
            )
        if wanted.size == "rest" and found.size < max(SMALLEST.get(found.filesystem, 0), int(disk.align)):
            yield LayoutError(
                (*where, "size"),
                f"partition {found.name!r} takes the rest of the disk, and that is "
                f"{max(0, found.size)} bytes: those before it end at {found.offset} of {int(disk.size)}",
                hint="make a partition before it smaller",
            )
            return
        elif wanted.size != "rest" and found.end > disk.size >= found.offset:
            yield LayoutError(
                (*where, "size"),
                f"partition {found.name!r} ends {Size(found.end - disk.size)} behind the disk of {disk.size}",
                hint=_how_much(partitions, found.number, found.end - int(disk.size)),
            )
            return


def _how_much(partitions: Sequence[Partition], number: int, over: int) -> str:
    """What to do about a layout that is too long: how much all of it takes too much."""
    over += sum(int(p.size) for p in partitions[number:] if p.size != "rest")
    if (last := partitions[-1]).size != "rest":
        return f"make partitions {Size(over)} smaller in all, or use `size: rest` for the last one"
    least = SMALLEST.get(last.filesystem, 0)
    return f"make partitions {Size(over + least)} smaller in all, which leaves {Size(least)} to {last.name!r}"
