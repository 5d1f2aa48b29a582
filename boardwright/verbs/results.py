"""``invoke results`` and ``invoke compare``: the history of runs, and two of them side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from boardwright.build.store import cache_directory
from boardwright.errors import ExitStatus
from boardwright.results.compare import Comparison, compare
from boardwright.results.history import History, Kept

_STATUS = {0: "pass", 1: "fail", 3: "error", 130: "interrupted"}
_EARLIER = 50
"""Runs that the spread of a rate is taken from."""


def history_file() -> Path:
    """The history of all runs, in the user's cache."""
    return cache_directory() / "results.sqlite3"


def results(board: str, limit: int, as_json: bool) -> int:
    """The newest runs, of all boards or of one."""
    return _list(History(history_file()).runs(board=board, limit=limit), as_json)


def compare_runs(before: str, after: str, board: str, as_json: bool) -> int:
    """What changed from run ``before`` to run ``after``; 1 when something is worse."""
    history = History(history_file())
    old, new = history.find(before, board=board), history.find(after, board=board)
    earlier = [kept.record for kept in history.runs(limit=_EARLIER) if kept.number < new.number]
    found = compare(old.record, new.record, earlier)
    _show(old, new, found, as_json)
    return ExitStatus.PRODUCT if found.worse else ExitStatus.OK


def _list(runs: Sequence[Kept], as_json: bool) -> int:
    if as_json:
        print(json.dumps([{"run": kept.number, **_summary(kept.record)} for kept in runs], indent=2))
    elif not runs:
        print("no runs yet: invoke bringup makes them", file=sys.stderr)
    else:
        rows = [_columns(kept) for kept in runs]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, *cells in rows:
            padded = (cell.ljust(width) for cell, width in zip(cells, widths[1:], strict=True))
            print("  ".join((number.rjust(widths[0]), *padded)).rstrip())
    return ExitStatus.OK


def _columns(kept: Kept) -> tuple[str, ...]:
    row = _summary(kept.record)
    short = {**row, "image": row["image"][:16]}
    names = ("started", "board", "target", "evidence", "image", "verdict", "counts")
    return (str(kept.number), *(short[name] for name in names))


def _summary(record: Mapping[str, Any]) -> dict[str, str]:
    outcomes = [str(check.get("outcome", "")) for check in record.get("checks", [])]
    names = ("pass", "fail", "error", "skip")
    return {
        "started": str(record.get("started", "")),
        "board": str(record.get("board", "")),
        "target": str(record.get("target", "")),
        "evidence": str(record.get("evidence", "")),
        "image": str(record.get("image", {}).get("sha256", "")),
        "verdict": _STATUS.get(int(record.get("exit_status", 3)), "error"),
        "counts": ", ".join(f"{outcomes.count(name)} {name}" for name in names if name in outcomes),
    }


def _show(old: Kept, new: Kept, found: Comparison, as_json: bool) -> None:
    if as_json:
        changes = [
            {"check": c.check, "what": c.what, "kind": c.kind, "before": c.before, "after": c.after,
             "spread": c.spread, "unit": c.unit, "worse": c.worse}
            for c in found.changes
        ]  # fmt: skip
        value = {"before": old.number, "after": new.number, "rates": found.compared, "notes": found.notes}
        print(json.dumps({**value, "changes": changes}, indent=2))
        return
    for kept in (old, new):
        row = _summary(kept.record)
        print(f"run {kept.number}: {row['started']}, image {row['image'][:16]}, {row['counts']}")
    for note in found.notes:
        print(f"not the same: {note}")
    for change in found.changes:
        print(f"{'WORSE ' if change.worse else '      '} {change}")
    print(f"{len(found.worse)} worse of {len(found.changes)} changes; {found.compared} rates compared")
