"""A series file with other patches for one line; comments and what other lines get stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boardwright.patches.series import Absent, Series

Content = tuple[str, ...] | Absent


@dataclass(slots=True)
class _Block:
    """A section: its lines, what it says, and the rows below its header as they stand in the file."""

    lines: list[str]
    content: Content
    rows: list[str] | None = None


def rewritten(text: str, series: Series, line: str, names: Sequence[str], known: Sequence[str]) -> str:
    """The text of ``series`` (which ``text`` is) after ``line`` gets ``names``; ``known`` gives the order."""
    wanted = tuple(names)
    if _of(series, line) == wanted:
        return text
    preamble, blocks = _blocks(text, series, line, known)
    place = next((index + 1 for index, block in enumerate(blocks) if line in block.lines), len(blocks))
    for block in blocks:
        block.lines = [name for name in block.lines if name != line]
    same = next((block for block in blocks if block.content == wanted and block.lines), None)
    if same is None:
        same = _Block([], wanted)
        blocks.insert(place, same)
    same.lines = sorted([*same.lines, line], key=lambda name: known.index(name) if name in known else -1)
    return _joined(preamble, [block for block in blocks if block.lines])


def _of(series: Series, line: str) -> Content | None:
    section = series.section(line)
    if section is None:
        return series.everywhere or None
    return section.content if isinstance(section.content, Absent) else (*series.everywhere, *section.content)


def _blocks(text: str, series: Series, line: str, known: Sequence[str]) -> tuple[list[str], list[_Block]]:
    """The rows above the first section, and the sections.

    Patches that stand before any section are moved into sections, since one line is to differ.
    """
    rows = text.splitlines()
    starts = [section.row - 1 for section in series.sections]
    ends = [*starts[1:], len(rows)]
    preamble = rows[: starts[0]] if starts else rows
    if not series.everywhere:
        return preamble, [
            _Block(list(section.lines), section.content, rows[start + 1 : end])
            for section, start, end in zip(series.sections, starts, ends, strict=True)
        ]
    comments = [row for row in preamble if row.lstrip().startswith("#")]
    declared = {name for section in series.sections for name in section.lines}
    rest = [name for name in known if name not in declared] or [line]
    blocks = [_Block(rest, series.everywhere)]
    blocks += [
        _Block(list(section.lines), _of(series, section.lines[0]) or ()) for section in series.sections
    ]
    return comments, blocks


def _joined(preamble: Sequence[str], blocks: Sequence[_Block]) -> str:
    parts = ["\n".join(preamble).strip("\n")] if preamble else []
    for block in blocks:
        rows = block.rows
        if rows is None:
            content = block.content
            rows = [f"none: {content.reason}"] if isinstance(content, Absent) else list(content)
        parts.append("\n".join([f"[{' '.join(block.lines)}]", *rows]).strip("\n"))
    return "\n\n".join(part for part in parts if part) + "\n"
