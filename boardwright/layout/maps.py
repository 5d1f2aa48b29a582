"""A board's memory and disk as they were and as they are to be, for ``invoke layout``; no text yet.

*Before* is the layout the board left the vendor with (``disk.shipped``), or better: what its own command line
and load script say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from boardwright.errors import InputError
from boardwright.layout import blkdevparts, bootargs, loadscript, partitions, presets, split_rules
from boardwright.layout import split as splits
from boardwright.layout.extents import Extent, Table
from boardwright.layout.split import Pool, Split
from boardwright.schema.board import Board, Memory
from boardwright.schema.units import Size


@dataclass(frozen=True, slots=True)
class Layout:
    """``source``: where it is known from. ``faults``: what is wrong with it, in words."""

    title: str
    source: str
    table: Table | None
    split: Split | None
    faults: tuple[str, ...] = ()


class Area(Extent, frozen=True):
    """A piece of the physical address space and who has it."""

    owner: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A partition in both layouts; None where it is not."""

    name: str
    before: tuple[int, int, int] | None
    """Number, offset and size."""
    after: tuple[int, int, int] | None

    @property
    def words(self) -> str:
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        said = []
        if self.before[0] != self.after[0]:
            said.append(f"number {self.before[0]} becomes {self.after[0]}")
        if moved := self.after[1] - self.before[1]:
            said.append(f"moves {Size(abs(moved))} {'up' if moved > 0 else 'down'}")
        if grown := self.after[2] - self.before[2]:
            said.append(f"{Size(abs(grown))} {'larger' if grown > 0 else 'smaller'}")
        return ", ".join(said) or "stays"


def planned(board: Board) -> Layout:
    """What the board file asks for. Raises ``InputError`` when it cannot be."""
    table = partitions.resolve(board.disk, board.partitions)
    split = split_rules.resolve(board.memory)
    return Layout("as the board file says", f"boards/{board.board}/board.yaml", table, split)


def shipped(board: Board) -> Layout | None:
    """The preset that the board file names; None when it names none. Raises ``InputError`` for no preset."""
    if board.disk.shipped is None:
        return None
    preset = presets.PRESETS.get(board.disk.shipped)
    if preset is None:
        raise InputError(
            f"there is no shipped layout {board.disk.shipped!r}",
            hint=f"there are: {', '.join(presets.PRESETS)}",
        )
    split = None
    if preset.linux is not None and preset.cmm is not None:
        base = board.memory.base
        pool = Pool("anonymous", base + preset.linux, int(preset.cmm))
        split = Split(base, int(board.memory.dram), int(preset.linux), (pool,), _reserved(board.memory))
    source = f"{preset.source}; {preset.confidence}"
    return Layout(f"as shipped ({preset.name}: {preset.title})", source, preset.table(), split)


def running(board: Board, cmdline: str, script: str | None, name: str = loadscript.PATH) -> Layout:
    """What a board's ``/proc/cmdline`` and load script say. Raises ``InputError`` when they do not.

    ``name``: of the script's copy, for errors.
    """
    text = cmdline.strip()
    if "blkdevparts=" not in text:
        raise InputError(
            f"bootargs: expected one blkdevparts=, found 0: {text[:160]!r}",
            hint="Sipeed's SD image has a partition table instead; otherwise copy /proc/cmdline as it stands",
        )
    table = presets.table(bootargs.value(text, "blkdevparts"), _size_for(text, int(board.disk.size)))
    linux = splits.parse_mem(bootargs.value(text, "mem"))
    pools = loadscript.pools(script, name) if script is not None else ()
    split = Split(board.memory.base, int(board.memory.dram), linux, pools, _reserved(board.memory))
    wrong = list(split_rules.judge(split))
    if len(table.partitions) > blkdevparts.MOST:
        wrong.append(f"{len(table.partitions)} partitions, of which the kernel numbers {blkdevparts.MOST}")
    root = bootargs.value(text, "root")
    holders = [p for p in table.partitions if p.contents == "rootfs" and table.path(p) == root]
    if not holders:
        wrong.append(f"root={root} is no partition rootfs of its blkdevparts")
    return Layout("as the board runs", "its command line and load script", table, split, tuple(wrong))


def _size_for(text: str, size: int) -> int | None:
    """The device's size matters only to a partition that takes the rest of it."""
    return size if ",-(" in text or ":-(" in text else None


def _reserved(memory: Memory) -> tuple[Extent, ...]:
    return tuple(Extent(r.name, r.address, int(r.size)) for r in memory.reserved)


def areas(split: Split) -> list[Area]:
    """The DRAM from its start to its end without gaps: Linux's, pools, and what nobody has."""
    ends = [split.base, split.base + split.linux, split.end]
    ends += [edge for pool in split.pools for edge in (pool.offset, pool.end)]
    edges = sorted({min(max(edge, split.base), split.end) for edge in ends})
    return [_area(split, start, end) for start, end in itertools.pairwise(edges)]


def _area(split: Split, start: int, end: int) -> Area:
    pool = next((p for p in split.pools if p.offset < end and start < p.end), None)
    if pool is not None and start < split.base + split.linux:
        return Area(f"Linux and CMM pool {pool.name}", start, end - start, "both")
    if pool is not None:
        return Area(f"CMM pool {pool.name}", start, end - start, "cmm")
    if start < split.base + split.linux:
        return Area("Linux", start, end - start, "linux")
    return Area("neither Linux nor a pool", start, end - start, "unused")


def changes(before: Table | None, after: Table) -> Iterator[Change]:
    """Partitions by name: those of the new layout in order, then those that are gone."""
    old = {p.name: (p.number, p.offset, p.size) for p in before.partitions} if before else {}
    for p in after.partitions:
        yield Change(p.name, old.pop(p.name, None), (p.number, p.offset, p.size))
    for name, place in old.items():
        yield Change(name, place, None)


def as_json(layout: Layout | None) -> dict[str, Any] | None:
    """Offsets, addresses and sizes in bytes."""
    if layout is None:
        return None
    return {
        "title": layout.title,
        "source": layout.source,
        "faults": list(layout.faults),
        "disk": _table_json(layout.table) if layout.table else None,
        "memory": _split_json(layout.split) if layout.split else None,
    }


def _table_json(table: Table) -> dict[str, Any]:
    return {
        "device": table.device,
        "size": table.size,
        "holes": [{"name": h.name, "offset": h.offset, "size": h.size} for h in table.holes],
        "partitions": [
            {
                "number": p.number,
                "name": p.name,
                "offset": p.offset,
                "size": p.size,
                "filesystem": p.filesystem,
                "contents": p.contents,
                "mount": p.mount,
                "grow": p.grow,
            }
            for p in table.partitions
        ],
    }


def _split_json(split: Split) -> dict[str, Any]:
    return {
        "base": split.base,
        "dram": split.dram,
        "linux": split.linux,
        "mem": split.mem,
        "cmmpool": split.cmmpool,
        "pools": [{"name": p.name, "address": p.offset, "size": p.size} for p in split.pools],
        "reserved": [{"name": r.name, "address": r.offset, "size": r.size} for r in split.reserved],
        "areas": [{"owner": a.owner, "address": a.offset, "size": a.size} for a in areas(split)],
    }
