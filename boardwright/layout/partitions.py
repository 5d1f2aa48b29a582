"""A board's disk as arithmetic: where each partition and loader hole lies, or why it cannot.

Offsets and sizes are bytes unless a name says sectors. No I/O: the image step and ``invoke layout`` get
the same :class:`Table` from :func:`resolve`, and the schema layer turns the ``path`` of a
:class:`LayoutError` into file:line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from boardwright.layout.extents import (
    SECTOR,
    SMALLEST,
    Extent,
    KeyPath,
    LayoutError,
    PlacedHole,
    PlacedPartition,
    Table,
    key,
    overlap_fault,
    too_small,
)

if TYPE_CHECKING:
    from boardwright.schema.board import Disk, Partition

__all__ = [
    "FILE_SYSTEMS", "GPT_ENTRIES", "GPT_HEAD", "GPT_NAME_UNITS", "GPT_TAIL", "SECTOR", "SMALLEST", "Extent",
    "KeyPath", "LayoutError", "PlacedHole", "PlacedPartition", "Table", "faults",
    "gpt_extents", "key", "resolve",
]  # fmt: skip

GPT_HEAD = 34 * SECTOR
"""Protective MBR, header, and 128 entries of 128 bytes (UEFI 2.10, 5.3)."""
GPT_TAIL = 33 * SECTOR
GPT_ENTRIES = 128
GPT_NAME_UNITS = 36

FILE_SYSTEMS = {"boot": "vfat", "rootfs": "ext4"}
"""What the image step can make: FAT from files, ext4 from a tarball."""


def resolve(disk: Disk, partitions: Sequence[Partition]) -> Table:
    """The table of a board's disk. Raises the first :class:`LayoutError` there is."""
    for error in faults(disk, partitions):
        raise error
    if disk.table == "blkdevparts":
        from boardwright.layout import blkdevparts  # of no use to a disk with a GPT

        return blkdevparts.placed(disk, partitions)
    return _placed(disk, partitions)


def faults(disk: Disk, partitions: Sequence[Partition]) -> list[LayoutError]:
    """Everything wrong with a layout. Positions are judged once names and sizes are right."""
    if disk.table == "blkdevparts":
        from boardwright.layout import blkdevparts

        return blkdevparts.faults(disk, partitions)
    found = [*_disk_faults(disk), *_hole_faults(disk), *_partition_faults(disk, partitions)]
    return found or list(_position_faults(disk, partitions))


def gpt_extents(disk_size: int) -> tuple[Extent, Extent]:
    """What the partition table itself occupies."""
    return Extent("GPT", 0, GPT_HEAD), Extent("backup GPT", disk_size - GPT_TAIL, GPT_TAIL)


def _disk_faults(disk: Disk) -> Iterator[LayoutError]:
    if disk.align < 4096 or disk.align & (disk.align - 1):
        yield LayoutError(("disk", "align"), f"expected a power of two, 4KiB at least, found {disk.align}")
        return
    if disk.size == 0 or disk.size % disk.align:
        yield LayoutError(
            ("disk", "size"),
            f"expected a multiple of {disk.align} (disk.align), more than 0, found {disk.size}",
        )
    if disk.first_partition < GPT_HEAD or disk.first_partition % disk.align:
        yield LayoutError(
            ("disk", "first-partition"),
            f"expected a multiple of {disk.align} (disk.align) behind the GPT, which ends at "
            f"{GPT_HEAD} bytes, found {disk.first_partition}",
        )


def _hole_faults(disk: Disk) -> Iterator[LayoutError]:
    yield from _name_faults("hole", [h.name for h in disk.holes], ("disk", "holes"))
    for index, hole in enumerate(disk.holes):
        where: KeyPath = ("disk", "holes", index)
        for field, value in (("offset", hole.offset), ("size", hole.size)):
            if value % SECTOR:
                yield LayoutError((*where, field), f"expected whole sectors of {SECTOR} bytes, found {value}")
        if hole.size == 0:
            yield LayoutError((*where, "size"), f"hole {hole.name!r} has no size")


def _partition_faults(disk: Disk, partitions: Sequence[Partition]) -> Iterator[LayoutError]:
    last = len(partitions) - 1
    if last >= GPT_ENTRIES:
        yield LayoutError(
            ("partitions", GPT_ENTRIES), f"a GPT holds {GPT_ENTRIES} partitions, found {last + 1}"
        )
    for contents in FILE_SYSTEMS:
        if not any(p.contents == contents for p in partitions):
            yield LayoutError(("partitions",), f"expected a partition with contents: {contents}, found none")
    yield from _name_faults("partition", [p.name for p in partitions], ("partitions",))
    for index, partition in enumerate(partitions):
        where: KeyPath = ("partitions", index)
        yield from _size_faults(disk, partition, (*where, "size"), is_last=index == last)
        if partition.grow and index != last:
            yield LayoutError(
                (*where, "grow"), f"only the last partition can grow, {partition.name!r} is not it"
            )
        if partition.contents not in FILE_SYSTEMS:
            yield LayoutError(
                (*where, "contents"),
                f"expected boot or rootfs in a GPT, found {partition.contents}",
                hint="the others belong to disk.table: blkdevparts",
            )
            continue
        wanted = FILE_SYSTEMS[partition.contents]
        if partition.filesystem != wanted:
            yield LayoutError(
                (*where, "filesystem"),
                f"expected {wanted} for contents: {partition.contents}, found {partition.filesystem}",
            )


def _size_faults(disk: Disk, partition: Partition, path: KeyPath, *, is_last: bool) -> Iterator[LayoutError]:
    size, name = partition.size, partition.name
    if size == "rest":
        if not is_last:
            yield LayoutError(path, f"partition {name!r} takes the rest of the disk, yet others follow it")
        return
    if size == 0:
        yield LayoutError(path, f"partition {name!r} has no size")
    elif disk.align and size % disk.align:
        yield LayoutError(path, f"expected a multiple of {disk.align} (disk.align), found {size}")
    elif size < SMALLEST.get(partition.filesystem, 0):
        yield too_small(partition, size, path)


def _name_faults(kind: str, names: Sequence[str], path: KeyPath) -> Iterator[LayoutError]:
    for index, name in enumerate(names):
        where: KeyPath = (*path, index, "name")
        units = len(name.encode("utf-16-le")) // 2
        if not name or not name.isprintable() or set(name) & set('"\\/'):
            yield LayoutError(where, f"expected printable text without quotes and slashes, found {name!r}")
        elif units > GPT_NAME_UNITS:
            yield LayoutError(
                where, f"a GPT name has {GPT_NAME_UNITS} UTF-16 units at most, {name!r} has {units}"
            )
        elif name in names[:index]:
            yield LayoutError(where, f"there is a {kind} {name!r} already, at index {names.index(name)}")


def _position_faults(disk: Disk, partitions: Sequence[Partition]) -> Iterator[LayoutError]:
    table = _placed(disk, partitions)
    holes = list(enumerate(table.holes))
    for (index, hole), other in itertools.product(holes, gpt_extents(disk.size)):
        if hole.end <= disk.size and hole.overlaps(other):
            yield overlap_fault(("disk", "holes", index, "offset"), hole, other)
    for index, hole in holes:
        if hole.end > disk.size:
            yield LayoutError(
                ("disk", "holes", index, "size"),
                f"hole {hole.name!r} ends {hole.end - disk.size} bytes behind the disk of {disk.size}",
            )
    for (_, earlier), (index, hole) in itertools.combinations(holes, 2):
        if hole.overlaps(earlier):
            yield overlap_fault(("disk", "holes", index, "offset"), hole, earlier)
    for position, partition in enumerate(table.partitions):
        yield from _room_faults(disk, partitions[position], partition)
        for hole in table.holes:
            if partition.overlaps(hole):
                yield overlap_fault(("partitions", position), partition, hole)


def _room_faults(disk: Disk, wanted: Partition, placed: PlacedPartition) -> Iterator[LayoutError]:
    path: KeyPath = ("partitions", placed.number - 1, "size")
    if wanted.size == "rest":
        if placed.size < SMALLEST.get(placed.filesystem, 0):
            yield too_small(wanted, max(0, placed.size), path)
    elif (over := placed.end - (disk.size - GPT_TAIL)) > 0:
        yield LayoutError(
            path,
            f"partition {placed.name!r} ends {over} bytes behind what the backup GPT leaves of the disk "
            f"({disk.size})",
            hint="make disk.size larger or a partition smaller, or use `size: rest` for the last one",
        )


def _placed(disk: Disk, partitions: Sequence[Partition]) -> Table:
    """Partitions one after the other; holes where they say."""
    offset, placed = int(disk.first_partition), []
    room = (disk.size - GPT_TAIL) // disk.align * disk.align
    for number, p in enumerate(partitions, start=1):
        size = room - offset if p.size == "rest" else int(p.size)
        placed.append(
            PlacedPartition(p.name, offset, size, number, p.filesystem, p.contents, p.grow, p.mount)
        )
        offset += size
    holes = tuple(PlacedHole(h.name, int(h.offset), int(h.size), h.contents) for h in disk.holes)
    return Table(int(disk.size), holes, tuple(placed))
