"""What is on the device: each old partition's file system, how far it goes and how much of it is used."""

from __future__ import annotations

from collections.abc import Iterable

from . import ext4
from .medium import CHUNK, Medium
from .parts import Part, Refused
from .plan import Held


def held(medium: Medium, parts: Iterable[Part]) -> tuple[Held, ...]:
    """Raises :class:`Refused` for a file system that is larger than its partition: then this is not its
    layout."""
    return tuple(_held(medium, part) for part in parts)


def _held(medium: Medium, part: Part) -> Held:
    read = reader(medium, part)
    found = ext4.superblock(read)
    if found is None:
        empty = _is_zero(medium, part)
        return Held(part, "empty" if empty else "raw", 0 if empty else part.size, 0 if empty else part.size)
    if found.size > part.size:
        raise Refused(
            f"{part.name} has {part.size} bytes and the file system in it {found.size}",
            hint="is this the layout that the board runs with? read blkdevparts in its /proc/cmdline",
        )
    spans = ext4.used(read)
    return Held(part, "ext4", found.size, sum(end - start for start, end in spans), found.trusted)


def _is_zero(medium: Medium, part: Part) -> bool:
    """To the last byte: what is taken for empty is neither moved nor kept."""
    return not any(
        any(medium.read(at, min(CHUNK, part.end - at))) for at in range(part.offset, part.end, CHUNK)
    )


def reader(medium: Medium, part: Part) -> ext4.Read:
    """Reads of a partition, which end with it."""
    return lambda offset, length: medium.read(part.offset + offset, max(0, min(length, part.size - offset)))
