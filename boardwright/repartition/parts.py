"""Partitions as ``blkdevparts=`` text: contiguous from byte 0, in list order, no table on the medium.

Format: kernel ``block/partitions/cmdline.c`` and ``Documentation/block/cmdline-partition.rst``. U-Boot of the
AX650 SDK reads the same text and knows no gaps (``cmd/axera/download/sparse_img.c``, get_part_info).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SECTOR = 512
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ENTRY = re.compile(
    r"(?P<size>\d+)(?P<unit>[KMG]?)(?:@(?P<at>\d+)(?P<at_unit>[KMG]?))?\((?P<name>[^()\s,;:]+)\)\Z"
)
_WORD = re.compile(r"(?:^|(?<=\s))blkdevparts=(\S*)")
_ROOT = re.compile(r"(?:^|(?<=\s))root=(\S*)")


class Refused(Exception):
    """What was asked for cannot be done as asked; the message names the number that is wrong."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Part:
    """A partition: bytes ``offset`` to ``end`` (exclusive) of the device."""

    name: str
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges (start, end) share a byte."""
    return max(one[0], other[0]) < min(one[1], other[1])


def size_text(size: int) -> str:
    """A size as ``blkdevparts`` takes it, in the largest unit that is exact up to M, as the SDK writes it."""
    for unit in ("M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def human(size: int) -> str:
    """A size for people: exact bytes below a KiB, else three digits."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 2**power:
            return f"{size / 2**power:.4g} {unit}"
    return f"{size} bytes"


def parse(text: str, device: str, device_size: int) -> tuple[Part, ...]:
    """The partitions of ``mmcblk0:1536K(uboot),…``; ``-`` as size takes the rest of ``device_size`` bytes.

    Raises :class:`Refused`: syntax, gaps, equal names, whole sectors, the end of the device.
    """
    for definition in text.removeprefix("blkdevparts=").split(";"):
        name, _, entries = definition.partition(":")
        if name == device:
            return _parsed(entries, device, device_size)
    raise Refused(f"expected partitions of {device} in blkdevparts, found {text[:120]!r}")


def _parsed(entries: str, device: str, device_size: int) -> tuple[Part, ...]:
    found: list[Part] = []
    offset, words = 0, entries.split(",")
    for number, word in enumerate(words, start=1):
        rest = word.startswith("-(") and number == len(words)
        match = _ENTRY.fullmatch(f"{max(0, device_size - offset)}{word[1:]}" if rest else word)
        if match is None:
            raise Refused(f"entry {number} of blkdevparts is {word!r}, expected such as 512M(soc)")
        size = int(match["size"]) * _UNITS[match["unit"]]
        if match["at"] is not None and (at := int(match["at"]) * _UNITS[match["at_unit"]]) != offset:
            raise Refused(
                f"{match['name']} is put at byte {at}, but partitions before it end at {offset}; "
                "U-Boot on this board knows no gaps"
            )
        if size == 0 or size % SECTOR:
            raise Refused(f"{match['name']} has {size} bytes, expected whole sectors of {SECTOR}")
        if any(part.name == match["name"] for part in found):
            raise Refused(f"blkdevparts names {match['name']} twice, the second time as entry {number}")
        found.append(Part(match["name"], offset, size))
        offset += size
    if offset > device_size:
        raise Refused(
            f"{found[-1].name} ends at byte {offset}, {offset - device_size} behind the end of {device} "
            f"({device_size})",
            hint=f"make partitions smaller by {human(offset - device_size)}, or give the last one the size -",
        )
    return tuple(found)


def text(parts: Iterable[Part], device: str) -> str:
    """The value of ``blkdevparts=``."""
    return f"{device}:" + ",".join(f"{size_text(part.size)}({part.name})" for part in parts)


def of_bootargs(bootargs: str) -> str:
    """The ``blkdevparts`` value in a kernel command line. Raises :class:`Refused` unless there is one."""
    found: list[str] = _WORD.findall(bootargs)
    if len(found) != 1:
        raise Refused(f"expected one blkdevparts= in the bootargs, found {len(found)} in {bootargs[:200]!r}")
    return found[0]


def root_of(bootargs: str) -> str:
    """The ``root=`` value. Raises :class:`Refused` unless there is one."""
    found: list[str] = _ROOT.findall(bootargs)
    if len(found) != 1:
        raise Refused(f"expected one root= in the bootargs, found {len(found)} in {bootargs[:200]!r}")
    return found[0]
