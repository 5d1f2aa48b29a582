"""Disks, partitions and their speed: ``lsblk -b -P``, ``blkdevparts=``, and what ``dd`` says at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.memory import amount
from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_PAIR = re.compile(r'([A-Z][A-Z0-9_:%-]{0,20})="([^"]{0,300})"')
_PART = re.compile(
    r"(0x[0-9a-fA-F]{1,16}|\d{1,15}[KMGkmg]?|-)(?:@(0x[0-9a-fA-F]{1,16}|\d{1,15}[KMGkmg]?))?\(([\w.-]{1,40})\)"
)
_DD = re.compile(
    r"(\d{1,15}) bytes (?:\([^)]{1,40}\) )?copied, (\d{1,9}(?:\.\d{1,12})?(?:e-\d\d)?) s(?:econds)?\b"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A disk or partition; ``size`` in bytes."""

    name: str
    kind: str
    size: int
    label: str
    uuid: str
    filesystem: str
    mounted: str


def lsblk(text: bytes | str) -> list[Block]:
    """Of ``lsblk -b -P -o NAME,TYPE,SIZE,PARTLABEL,PARTUUID,FSTYPE,MOUNTPOINT`` (util-linux 2.41)."""
    found = []
    for line in lines(text):
        row = dict(_PAIR.findall(line))
        if "NAME" in row and row.get("SIZE", "").isascii() and row.get("SIZE", "").isdigit():
            found.append(
                Block(
                    row["NAME"], row.get("TYPE", ""), int(row["SIZE"][:18]), row.get("PARTLABEL", ""),
                    row.get("PARTUUID", ""), row.get("FSTYPE", ""), row.get("MOUNTPOINT", ""),
                )
            )  # fmt: skip
    return found[:MOST_ITEMS]


@dataclass(frozen=True, slots=True)
class Part:
    """A partition of ``blkdevparts=``: ``size`` in bytes, None for the rest of the disk."""

    name: str
    offset: int
    size: int | None


def blkdevparts(command_line: str) -> dict[str, list[Part]]:
    """The partitions by disk (``block/partitions/cmdline.c``, kernel 5.15 and later)."""
    text = command_line[:8192]
    at = text.find("blkdevparts=")
    words = text[at + len("blkdevparts=") :].split() if at >= 0 else []
    if not words:
        return {}
    found: dict[str, list[Part]] = {}
    for entry in words[0].split(";"):
        disk, _, listed = entry.partition(":")
        parts: list[Part] = []
        offset = 0
        for hit in _PART.finditer(listed):
            offset = (amount(hit[2]) or 0) if hit[2] else offset
            size = None if hit[1] == "-" else amount(hit[1])
            parts.append(Part(hit[3], offset, size))
            offset += size or 0
        if disk and parts:
            found[disk] = parts
    return found


def dd_rate(text: bytes | str) -> float | None:
    """Bytes a second of the last ``dd`` (coreutils or BusyBox), from its own bytes and seconds."""
    rate = None
    for line in lines(text):
        if told := _DD.search(line):
            seconds = float(told[2])
            rate = int(told[1]) / seconds if seconds > 0 else rate
    return rate
