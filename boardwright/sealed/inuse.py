"""Which blocks of a disk image mean something, said by the file systems in it.

A hole of a sparse file is a bad witness: the host's file system decides where holes are, and a run of
zeros that ext4 or FAT relies on looks just like free space. So the block bitmaps and the FAT are read.
See ``docs/decisions/bmap-zeros.md``. Runs inside the sandbox, standard library only.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

Span = tuple[int, int]
"""Bytes from the first, up to and without the second."""

EDGE = 2**20
"""At both ends of a partition old signatures (md, LVM, ZFS, btrfs) would be found by their offset."""
GPT_HEAD, GPT_TAIL = 34 * 512, 33 * 512


class Image:
    """A file read by position. Not mapped: page faults fill holes on a tmpfs, and SIGBUS when it is full."""

    def __init__(self, file: BinaryIO) -> None:
        self.descriptor = file.fileno()
        self.size = os.fstat(self.descriptor).st_size

    def read(self, start: int, end: int) -> bytes:
        """Raises OSError when the file ends before ``end``."""
        data = b""
        while len(data) < end - start:
            more = os.pread(self.descriptor, end - start - len(data), start + len(data))
            if not more:
                raise OSError(f"the image ends at byte {start + len(data)}, before {end}")
            data = data + more if data else more
        return data


def spans(image: Image, layout: dict[str, Any]) -> list[Span]:
    """What must be written for the disk to be the image, whatever was on it before; sorted and disjoint."""
    found: list[Span] = [(0, GPT_HEAD), (layout["size"] - GPT_TAIL, layout["size"])]
    found += [(hole["offset"], hole["offset"] + hole["size"]) for hole in layout["holes"]]
    for partition in layout["partitions"]:
        start, end = partition["offset"], partition["offset"] + partition["size"]
        found += [(start, start + EDGE), (end - EDGE, end)]
        found += (ext4 if partition["filesystem"] == "ext4" else fat32)(image, start)
    return merged(found)


def merged(unsorted: Iterable[Span], granule: int = 1) -> list[Span]:
    """Spans widened to whole granules; those that touch become one."""
    result: list[Span] = []
    for start, end in sorted(unsorted):
        start, end = start // granule * granule, -(-end // granule) * granule
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif start < end:
            result.append((start, end))
    return result


def ext4(image: Image, offset: int) -> Iterator[Span]:
    """Blocks that the block bitmaps call used (kernel Documentation/filesystems/ext4)."""
    read = Superblock(image, offset)
    for group in range(read.groups):
        first = read.first_block + group * read.per_group
        count = min(read.per_group, read.blocks - first)
        bitmap, uninitialised = read.descriptor(group)
        if uninitialised:
            # The kernel computes this bitmap: nothing but a copy of superblock and descriptors, if any.
            if read.has_superblock(group):
                yield read.span(first, read.copied)
            continue
        at = offset + bitmap * read.block_size
        bits = int.from_bytes(image.read(at, at + -(-count // 8)), "little") & ((1 << count) - 1)
        for start, end in _runs(bits):
            yield read.span(first + start, end - start)


class Superblock:
    """The fields of an ext4 superblock that say where the block bitmaps are, and how full it is."""

    def __init__(self, image: Image, offset: int) -> None:
        raw = image.read(offset + 1024, offset + 2048)
        self._image, self._offset = image, offset
        self.inodes, low = struct.unpack_from("<II", raw, 0)
        free_low, self.free_inodes, self.first_block, log_size = struct.unpack_from("<IIII", raw, 12)
        (self.per_group,) = struct.unpack_from("<I", raw, 32)
        incompat, self.ro_compat = struct.unpack_from("<II", raw, 96)
        if struct.unpack_from("<H", raw, 56) != (0xEF53,) or incompat & 0x10:  # 0x10: meta_bg
            raise ValueError(f"no ext4 superblock that this program reads at byte {offset + 1024}")
        wide = bool(incompat & 0x80)
        size, high, free_high = *struct.unpack_from("<H", raw, 254), *struct.unpack_from("<I4xI", raw, 336)
        self.descriptor_size = size if wide else 32
        self.block_size = 1024 << log_size
        self.blocks = low | (high << 32 if wide else 0)
        self.free_blocks = free_low | (free_high << 32 if wide else 0)
        self.groups = -(-(self.blocks - self.first_block) // self.per_group)
        (reserved,) = struct.unpack_from("<H", raw, 206)
        self.copied = 1 + -(-self.groups * self.descriptor_size // self.block_size) + reserved
        """Blocks of superblock, descriptors and room for more descriptors, wherever a copy of them is."""

    def descriptor(self, group: int) -> tuple[int, bool]:
        """The block of a group's bitmap, and whether the group is BLOCK_UNINIT."""
        at = self._offset + (self.first_block + 1) * self.block_size + group * self.descriptor_size
        raw = self._image.read(at, at + self.descriptor_size)
        block, flags = struct.unpack_from("<I14xH", raw, 0)
        if self.descriptor_size >= 64:
            block |= struct.unpack_from("<I", raw, 32)[0] << 32
        return block, bool(flags & 2)

    def has_superblock(self, group: int) -> bool:
        """Groups 0, 1 and the powers of 3, 5 and 7, with sparse_super."""
        if group <= 1 or not self.ro_compat & 1:
            return True
        return any(_is_power(group, base) for base in (3, 5, 7))

    def span(self, first: int, count: int) -> Span:
        start = self._offset + first * self.block_size
        return start, start + count * self.block_size


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


def _runs(bits: int) -> Iterator[Span]:
    """The runs of ones in a bitmap, bit 0 first."""
    position = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ones
        yield position + zeros, position + zeros + ones
        position += zeros + ones


def fat32(image: Image, offset: int) -> Iterator[Span]:
    """Reserved sectors, both FATs, and every allocated cluster (Microsoft's FAT specification 1.03)."""
    head = image.read(offset, offset + 512)
    sector, per_cluster, reserved, fats = struct.unpack_from("<HBHB", head, 11)
    total, fat_size = struct.unpack_from("<II", head, 32)
    if head[82:87] != b"FAT32":
        raise ValueError(f"no FAT32 boot sector at byte {offset}")
    data = reserved + fats * fat_size
    yield offset, offset + data * sector
    at = offset + reserved * sector
    clusters = (total - data) // per_cluster
    table = memoryview(image.read(at, at + (clusters + 2) * 4)).cast("I")
    size, start = per_cluster * sector, offset + data * sector
    for cluster, entry in enumerate(table[2:]):
        if entry:
            yield start + cluster * size, start + (cluster + 1) * size
