"""The table at the end of a bring-up: with colours on a terminal, plain columns anywhere else."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO

from boardwright.results.outcome import CheckResult, Outcome

_HEAD = ("check", "outcome", "measured", "expected", "evidence")
_COLOURS = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.ERROR: "magenta", Outcome.SKIP: "yellow"}
_WIDEST = 46


def show(results: Sequence[CheckResult], stream: TextIO) -> None:
    """Print the table; below it, one line for each check that is not a pass, saying why."""
    if stream.isatty():
        _show_rich(results, stream)
    else:
        stream.write(plain(results))


def plain(results: Sequence[CheckResult]) -> str:
    rows = [_HEAD, *(tuple(_short(cell) for cell in _cells(r)) for r in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in [*lines, *_reasons(results)]) + "\n"


def _cells(result: CheckResult) -> tuple[str, ...]:
    first = result.measurements[0] if result.measurements else None
    measured = first.shown if first else "-"
    expected = str(first.expected) if first and first.expected is not None else "-"
    return (result.check, str(result.outcome), measured, expected, str(result.evidence))


def _short(text: str) -> str:
    return textwrap.shorten(text, _WIDEST, placeholder="…") if len(text) > _WIDEST else text


def _reasons(results: Sequence[CheckResult]) -> list[str]:
    """Why each check is not a pass; checks with one reason in common share a line."""
    shared: dict[tuple[Outcome, str, str], list[str]] = {}
    for result in results:
        if result.outcome is not Outcome.PASS:
            shared.setdefault((result.outcome, result.detail, result.hint), []).append(result.check)
    lines = []
    for (outcome, detail, hint), checks in shared.items():
        who = checks[0] if len(checks) == 1 else f"{len(checks)} checks"
        lines.append(f"{outcome}: {who}: {detail}")
        if hint:
            lines.append(f"  hint: {hint}")
    return ["", *lines] if lines else []


def _show_rich(results: Sequence[CheckResult], stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*_HEAD, show_edge=False, pad_edge=False)
    for result in results:
        cells = [Text(cell) for cell in _cells(result)]
        cells[1].stylize(_COLOURS[result.outcome])
        table.add_row(*cells)
    console = Console(file=stream)
    console.print(table)
    for line in _reasons(results):
        console.print(Text(line))
