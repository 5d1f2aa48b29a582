"""A disk layout as text, for ``invoke layout``."""

from __future__ import annotations

from collections.abc import Iterator

from boardwright.layout.partitions import SECTOR, Extent, PlacedHole, PlacedPartition, Table, gpt_extents
from boardwright.schema.units import Size


def draw(table: Table) -> str:
    """One row for each extent of the disk in order, free ones too: first sector, start, size, what it is."""
    rows = [("sector", "start", "size", "")]
    rows += [
        (str(e.offset // SECTOR), str(Size(e.offset)), str(Size(e.size)), _meaning(e))
        for e in _everything(table)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
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
