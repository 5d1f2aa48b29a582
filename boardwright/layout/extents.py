"""What a layout is made of: extents, placed partitions, and the rules that every kind of table shares.

Offsets and sizes are bytes unless a name says sectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from boardwright.errors import InputError
from boardwright.schema.units import Size

if TYPE_CHECKING:
    from boardwright.schema.board import Partition

SECTOR = 512
"""Bytes; what offsets and sizes of a disk are counted in."""

TYPE_GUIDS = {
    # XBOOTLDR rather than ESP: kernels live there, no EFI loader does, and U-Boot would keep its EFI
    # variables (ubootefi.var) in an ESP. Discoverable Partitions Specification.
    "boot": "bc13c2ff-59e6-4262-a352-b275fd6f7172",
    # Root, 64-bit ARM; same source.
    "rootfs": "b921b045-1df0-41c3-af44-4c6f280d3fae",
}
LEGACY_BOOTABLE = 2
"""Attribute bit by which U-Boot's standard boot picks the partition to look on (``disk/part_efi.c``)."""
GROW_FILE_SYSTEM = 59
"""Attribute bit that asks systemd to grow the file system to its partition when it is mounted."""

SMALLEST = {
    # 65,525 clusters of one sector make the smallest FAT32 (Microsoft's FAT specification 1.03), and
    # with its two tables and reserved sectors that is 33.3 MiB.
    "vfat": 34 * 2**20,
    # 4 KiB blocks and a journal, which mke2fs leaves out below 2,048 blocks.
    "ext4": 16 * 2**20,
}

KeyPath = tuple[str | int, ...]


class LayoutError(InputError):
    """A disk layout that cannot be. ``path`` leads to the value in the board file that is wrong."""

    def __init__(self, path: KeyPath, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{key(path)}: {message}", hint=hint)
        self.path = path


class MemoryFault(LayoutError):
    """A memory map that cannot be."""


def key(path: KeyPath) -> str:
    """``('partitions', 1, 'size')`` as a reader of the file would write it: ``partitions[1].size``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class Extent(msgspec.Struct, frozen=True):
    """Bytes ``offset`` to ``end`` (exclusive) of the disk, whole sectors."""

    name: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    @property
    def first_sector(self) -> int:
        return self.offset // SECTOR

    @property
    def sectors(self) -> int:
        return self.size // SECTOR

    def overlaps(self, other: Extent) -> bool:
        return self.offset < other.end and other.offset < self.end


class PlacedHole(Extent, frozen=True):
    """A loader's region. ``contents``: the loader's output that goes there, if any."""

    contents: str | None = None


class PlacedPartition(Extent, frozen=True):
    """A partition; in a GPT ``name`` is its PARTLABEL. ``number``: that of Linux, from 1."""

    number: int
    filesystem: str
    contents: str
    grow: bool
    mount: str | None = None

    @property
    def type_guid(self) -> str:
        return TYPE_GUIDS[self.contents]

    @property
    def attributes(self) -> tuple[int, ...]:
        """Bits of the entry's attribute field that are set."""
        boot = (LEGACY_BOOTABLE,) if self.contents == "boot" else ()
        return (*boot, GROW_FILE_SYSTEM) if self.grow else boot


class Table(msgspec.Struct, frozen=True):
    """A layout that keeps every rule of its kind. ``device``: its name in Linux, when there is no GPT."""

    size: int
    holes: tuple[PlacedHole, ...]
    partitions: tuple[PlacedPartition, ...]
    device: str | None = None

    def holding(self, contents: str) -> PlacedPartition:
        """The first partition with these contents; there is one (:func:`resolve` saw to it)."""
        return next(p for p in self.partitions if p.contents == contents)

    def mounted_over(self, path: str) -> PlacedPartition:
        """Whose file system an absolute path lies in; the root's where nothing else is mounted over it."""
        over = [p for p in self.partitions if p.mount and f"{path}/".startswith(f"{p.mount.rstrip('/')}/")]
        return max(over, key=lambda p: len(p.mount or ""), default=self.holding("rootfs"))

    def path(self, partition: PlacedPartition) -> str:
        """``/dev/mmcblk0p10``. Only for a table without a GPT."""
        if self.device is None:
            raise ValueError("partitions of a GPT are named by their PARTUUID")
        between = "p" if self.device[-1].isdigit() else ""
        return f"/dev/{self.device}{between}{partition.number}"


def too_small(partition: Partition, size: int, path: KeyPath, hint: str | None = None) -> LayoutError:
    smallest = Size(SMALLEST[partition.filesystem])
    return LayoutError(
        path,
        f"partition {partition.name!r} has {Size(size)}; {partition.filesystem} needs {smallest} at least",
        hint=hint,
    )


def overlap_fault(path: KeyPath, one: Extent, other: Extent) -> LayoutError:
    first, second = (f"{extent.name!r} (bytes {extent.offset} to {extent.end})" for extent in (one, other))
    return LayoutError(path, f"{first} overlaps {second}")
