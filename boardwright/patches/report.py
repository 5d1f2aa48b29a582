"""Verdicts in words: a table of topics and lines, then what is wrong, with both sides of a conflict."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from boardwright.patches.status import Applied, Conflict, Side, Verdict

_FAILED = {
    "fuzz": "needs fuzz",
    "upstream": "is in the source already",
    "partly": "is in the source in part",
    "conflict": "does not apply",
}
_WHAT_TO_DO = {
    "fuzz": "invoke patch refresh --topic {topic} --line {line}, after invoke patch edit",
    "upstream": "remove it from the section of line {line} (or write none: upstream since …)",
    "partly": "invoke patch edit --topic {topic} --line {line} shows what is left to do",
    "conflict": "invoke patch edit --topic {topic} --line {line} opens it as a merge",
}


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One table a collection: a row a topic, a column a line, the newest line first."""
    for collection in dict.fromkeys(verdict.line.collection for verdict in verdicts):
        of = [verdict for verdict in verdicts if verdict.line.collection == collection]
        lines = list(dict.fromkeys(verdict.line.name for verdict in of))
        cells = {(verdict.topic, verdict.line.name): _cell(verdict) for verdict in of}
        rows = [[collection, *lines]]
        for topic in dict.fromkeys(verdict.topic for verdict in of):
            rows.append([topic, *(cells.get((topic, line), "-") for line in lines)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(verdict: Verdict) -> str:
    if verdict.state == "offsets":
        return f"offset {max(patch.offset for patch in verdict.patches)}"
    return verdict.state if verdict.green else verdict.state.upper()


def remarks(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Why topics are absent, and which apply only after those before them."""
    absent: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.state == "absent":
            absent.setdefault((verdict.topic, verdict.reason), []).append(verdict.line.name)
    for (topic, reason), lines in absent.items():
        yield f"absent: {topic} on {', '.join(lines)}: {reason}"
    for verdict in verdicts:
        if verdict.green and not verdict.alone:
            yield f"{verdict.topic} on {verdict.line.name} applies after the topics before it, not alone"


def failures(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What is wrong, a paragraph a topic and line."""
    for verdict in verdicts:
        if verdict.state == "wrong":
            yield f"{verdict.line}: {verdict.reason}"
        elif verdict.failure:
            yield from _failure(verdict, verdict.failure)


def _failure(verdict: Verdict, failure: Applied) -> Iterator[str]:
    where = f"patches/{verdict.line.collection}/{verdict.topic}/{failure.name}"
    yield f"{verdict.line}: {where} {_FAILED[failure.state]}"
    if failure.conflict:
        yield from both_sides(failure.conflict)
    yield f"  {_WHAT_TO_DO[failure.state].format(topic=verdict.topic, line=verdict.line.name)}"


def both_sides(conflict: Conflict) -> Iterator[str]:
    """What the patch expects and what the source has; lines that the other side lacks are marked."""
    reason = f": {conflict.detail}" if conflict.detail else ""
    yield f"  {conflict.path}, hunk {conflict.hunk}{reason}"
    yield "  the patch expects"
    found = conflict.found or Side(0, ())
    yield from _side(conflict.expected, found)
    if conflict.found:
        has = (
            "the source has, where the patch would lead" if conflict.state == "already" else "the source has"
        )
        yield f"  {has}"
        yield from _side(conflict.found, conflict.expected)


def _side(side: Side, other: Side) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, side.lines, other.lines, autojunk=False)
    same = {
        index for block in matcher.get_matching_blocks() for index in range(block.a, block.a + block.size)
    }
    for index, line in enumerate(side.lines):
        mark = " " if index in same or not other.lines else ">"
        yield f"  {mark} {side.first + index:5} | {line.expandtabs(8).rstrip()}".rstrip()


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """For `--json`: the same, a row a topic and line."""
    return [
        {
            "collection": verdict.line.collection,
            "line": verdict.line.name,
            "version": verdict.line.version,
            "topic": verdict.topic,
            "state": verdict.state,
            "green": verdict.green,
            "reason": verdict.reason,
            "alone": verdict.alone,
            "patches": [_patch_json(patch) for patch in verdict.patches],
        }
        for verdict in verdicts
    ]


def _patch_json(patch: Applied) -> dict[str, Any]:
    row: dict[str, Any] = {"name": patch.name, "state": patch.state, "offset": patch.offset}
    if conflict := patch.conflict:
        row["file"], row["hunk"] = conflict.path, conflict.hunk
        row["expected"] = {"line": conflict.expected.first, "text": "".join(conflict.expected.lines)}
        if conflict.found:
            row["found"] = {"line": conflict.found.first, "text": "".join(conflict.found.lines)}
    return row
