"""``invoke plan`` and ``invoke explain``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from boardwright.build.executor import missing
from boardwright.verbs.common import Request, open_store, request


def plan(root: Path, board: str, variant: str, as_json: bool) -> int:
    """Print every step, its key, what it needs, and whether it is stored."""
    asked = request(root, board, variant)
    plan = asked.plan()
    todo = set(missing(plan, open_store()))
    rows: list[dict[str, Any]] = [
        {
            "step": name,
            "title": planned.step.title,
            "key": planned.key,
            "needs": list(planned.needs),
            "runs": name in todo,
        }
        for name, planned in plan.steps.items()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    width = max(len(name) for name in plan.steps)
    for row in rows:
        print(
            f"{'run ' if row['runs'] else 'have'}  {row['step']:{width}}  {row['key'][:12]}  {row['title']}"
        )
    return 0


def explain(root: Path, step: str, board: str, variant: str) -> int:
    """Compare a step's record with the one of the last published build."""
    asked = request(root, board, variant)
    planned = asked.plan(step)[step]
    before = _last_manifest(asked).get("steps", {}).get(step)
    stored = open_store().find(planned.key) is not None
    print(f"{step}: key {planned.key[:12]}, {'in the store' if stored else 'not in the store: it will run'}")
    if before is None:
        print("  no earlier build of this board in out/ to compare with")
    elif before["key"] == planned.key:
        print("  nothing changed since the last build")
    else:
        for line in differences(before["record"], planned.record):
            print(f"  {line}")
    return 0


def _last_manifest(asked: Request) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads((asked.out / "manifest.json").read_text())
    except (OSError, ValueError):
        return {}
    return result


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The places where two records differ, one line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            below = f"{path}.{name}" if path else name
            if name not in before:
                yield f"{below}: new ({_shown(after[name])})"
            elif name not in after:
                yield f"{below}: gone (was {_shown(before[name])})"
            else:
                yield from differences(before[name], after[name], below)
    elif before != after:
        yield f"{path}: changed from {_shown(before)} to {_shown(after)}"


def _shown(value: Any) -> str:
    words = str(value).split(" ")
    return " ".join(word[:12] if len(word) == 64 else word for word in words)
