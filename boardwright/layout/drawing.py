"""A disk layout and a memory map as text, for ``invoke layout``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from boardwright.layout.maps import Area, Layout, areas, changes
from boardwright.layout.partitions import SECTOR, Extent, PlacedHole, PlacedPartition, Table, gpt_extents
from boardwright.schema.units import Size


def draw(table: Table) -> str:
    """One row for each extent of the disk in order, free ones too: first sector, start, size, what it is."""
    rows = [("sector", "start", "size", "")]
    rows += [
        (str(e.offset // SECTOR), str(Size(e.offset)), str(Size(e.size)), _meaning(e))
        for e in _everything(table)
    ]
    return _columns(rows)


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Cells to the right, the last one of a row as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    )


def _everything(table: Table) -> Iterator[Extent]:
    taken = [*gpt_extents(table.size), *table.holes, *table.partitions]
    position = 0
    for extent in sorted(taken, key=lambda e: e.offset):
        if extent.offset > position:
            yield Extent("", position, extent.offset - position)
        yield extent
        position = extent.end


def _meaning(extent: Extent) -> str:
    if isinstance(extent, PlacedPartition):
        grows = ", grows on first boot" if extent.grow else ""
        return f"partition {extent.number} {extent.name}: {extent.filesystem}, {extent.contents}{grows}"
    if isinstance(extent, PlacedHole):
        return f"hole {extent.name}: {extent.contents or 'zeros'}"
    return extent.name or "free"


BAR = 64
"""Characters of a map drawn to scale."""


def compare(before: Layout | None, after: Layout) -> str:
    """Both maps of a board without a partition table, before and after."""
    blocks = [f"{side}: {layout.title}\n        source: {layout.source}"
              for side, layout in (("before", before), ("after ", after)) if layout]  # fmt: skip
    if before:
        blocks += [f"before: wrong: {fault}" for fault in before.faults]
    if after.table is not None:
        blocks += ["", _disks(before, after)]
    blocks += [part for side, layout in (("before", before), ("after", after)) if layout and layout.split
               for part in ("", _memory(side, layout))]  # fmt: skip
    return "\n".join(blocks)


def _disks(before: Layout | None, after: Layout) -> str:
    assert after.table is not None
    old = before.table if before else None
    lines = [f"disk    {after.table.device or ''}"]
    for side, table in (("before", old), ("after", after.table)):
        if table:
            scale = [(p.name, p.size) for p in table.partitions]
            used = sum(p.size for p in table.partitions)
            spare = [("-", table.size - used)] if table.size > used else []
            lines.append(f"{side:6}  |{_bar([*scale, *spare])}| {Size(used)} in {len(scale)} partitions")
    rows = [("#", "name", "start", "size", "was at", "was", "")]
    for change in changes(old, after.table):
        number = change.after or change.before
        assert number is not None
        rows.append(
            (str(number[0]), change.name, *_place(change.after), *_place(change.before),
             change.words if old else "")
        )  # fmt: skip
    return "\n".join([*lines, _columns(rows)])


def _place(place: tuple[int, int, int] | None) -> tuple[str, str]:
    return (f"0x{place[1]:X}", str(Size(place[2]))) if place else ("-", "-")


def _memory(side: str, layout: Layout) -> str:
    split = layout.split
    assert split is not None
    found = areas(split)
    pools = f" cmmpool={split.cmmpool}" if split.pools else ""
    rows = [("from", "to", "size", "")]
    for area in found:
        rows.append((f"0x{area.offset:X}", f"0x{area.end:X}", str(Size(area.size)), area.name))
        inside = [r for r in split.reserved if area.offset <= r.offset < area.end] if side == "after" else []
        rows += [
            (f"0x{r.offset:X}", f"0x{r.end:X}", str(Size(r.size)), f"  reserved: {r.name}")
            for r in sorted(inside, key=lambda r: r.offset)
        ]
    bar = _bar([(_letter(area), area.size) for area in found])
    head = f"memory {side}: {Size(split.dram)}, mem={split.mem}{pools}"
    return "\n".join([head, f"        |{bar}|", _columns(rows)])


def _letter(area: Area) -> str:
    return {"linux": "L", "cmm": "C", "both": "!"}.get(area.owner, "-")


def _bar(parts: Sequence[tuple[str, int]]) -> str:
    """First letters to scale, each character a share of the whole; what is smaller than one has none."""
    total, drawn, done = sum(size for _, size in parts), "", 0
    for name, size in parts:
        done += size
        drawn += name[0] * (round(done * BAR / total) - len(drawn))
    return drawn
