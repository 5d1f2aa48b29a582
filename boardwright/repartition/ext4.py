"""Which bytes of an ext4 file system mean something: its superblock, descriptors and block bitmaps.

Layout: kernel ``Documentation/filesystems/ext4``. Where a file system cannot be trusted to say (its journal
is not replayed, or it has a feature this module does not read), all of it counts as used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]
"""Bytes from the first, up to and without the second, from the start of the file system."""
Read = Callable[[int, int], bytes]
"""Bytes of the partition: offset and length."""

_MAGIC = 0xEF53
_RECOVER, _JOURNAL_DEVICE, _META_BG, _WIDE = 0x4, 0x8, 0x10, 0x80
_BIGALLOC = 0x200
_BLOCK_UNINIT = 2


@dataclass(frozen=True, slots=True)
class Superblock:
    """``size``: bytes the file system occupies. ``trusted``: whether its bitmaps say what is used."""

    size: int
    used: int
    block_size: int
    trusted: bool
    clean: bool
    first_block: int
    blocks: int
    per_group: int
    descriptor_size: int
    table_blocks: int
    reserved: int
    sparse: bool


def superblock(read: Read) -> Superblock | None:
    """The superblock of what ``read`` reads, or ``None`` when that is no ext2, ext3 or ext4."""
    raw = read(1024, 1024)
    if len(raw) < 1024 or struct.unpack_from("<H", raw, 56)[0] != _MAGIC:
        return None
    low, _, free_low, _, first, log_size = struct.unpack_from("<6I", raw, 4)
    (per_group, _, inodes_per_group) = struct.unpack_from("<III", raw, 32)
    incompat, ro_compat = struct.unpack_from("<II", raw, 96)
    (inode_size,), (reserved,) = struct.unpack_from("<H", raw, 88), struct.unpack_from("<H", raw, 206)
    if log_size > 6 or not per_group:
        return None
    wide, block = bool(incompat & _WIDE), 1024 << log_size
    size, high, free_high = *struct.unpack_from("<H", raw, 254), *struct.unpack_from("<I4xI", raw, 336)
    blocks = low | (high << 32 if wide else 0)
    free = free_low | (free_high << 32 if wide else 0)
    return Superblock(
        size=blocks * block,
        used=(blocks - free) * block,
        block_size=block,
        trusted=not (incompat & (_RECOVER | _JOURNAL_DEVICE | _META_BG) or ro_compat & _BIGALLOC),
        clean=not incompat & _RECOVER,
        first_block=first,
        blocks=blocks,
        per_group=per_group,
        descriptor_size=size if wide and size >= 32 else 32,
        table_blocks=-(-inodes_per_group * (inode_size or 128) // block),
        reserved=reserved,
        sparse=bool(ro_compat & 1),
    )


def used(read: Read) -> list[Span]:
    """Used bytes of the file system, sorted and disjoint; all of it when its bitmaps cannot be trusted.

    Raises ``ValueError`` when there is no file system.
    """
    found = superblock(read)
    if found is None:
        raise ValueError("no ext4 superblock at byte 1024")
    if not found.trusted:
        return [(0, found.size)]
    block = found.block_size
    spans = ((max(0, start) * block, min(end, found.blocks) * block) for start, end in _blocks(read, found))
    return merged([(0, max(2048, block)), *spans])


def _blocks(read: Read, found: Superblock) -> Iterator[Span]:
    groups = -(-(found.blocks - found.first_block) // found.per_group)
    size = found.descriptor_size
    table = read((found.first_block + 1) * found.block_size, groups * size)
    copied = 1 + -(-groups * size // found.block_size) + found.reserved
    for group in range(groups):
        raw = table[group * size : (group + 1) * size]
        bitmap, inode_bitmap, inode_table, flags = struct.unpack_from("<III6xH", raw, 0)
        if size >= 64:
            high = struct.unpack_from("<III", raw, 32)
            bitmap, inode_bitmap, inode_table = (
                word | more << 32
                for word, more in zip((bitmap, inode_bitmap, inode_table), high, strict=True)
            )
        yield from ((bitmap, bitmap + 1), (inode_bitmap, inode_bitmap + 1))
        yield inode_table, inode_table + found.table_blocks
        first = found.first_block + group * found.per_group
        if _has_superblock(group, found.sparse):
            yield first, first + copied
        if flags & _BLOCK_UNINIT:
            continue  # the kernel computes this bitmap: only what was named above
        count = min(found.per_group, found.blocks - first)
        bits = int.from_bytes(read(bitmap * found.block_size, -(-count // 8)), "little")
        for start, end in _runs(bits & ((1 << count) - 1)):
            yield first + start, first + end


def _has_superblock(group: int, sparse: bool) -> bool:
    if group <= 1 or not sparse:
        return True
    return any(_is_power(group, base) for base in (3, 5, 7))


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


def _runs(bits: int) -> Iterator[Span]:
    position = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ones
        yield position + zeros, position + zeros + ones
        position += zeros + ones


def merged(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """Sorted; spans that touch, or are ``gap`` bytes apart at most, become one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start <= result[-1][1] + gap:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result
