"""Two runs side by side: outcomes that changed, and rates that fell by more than their own spread. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ALONE = 0.05
"""The spread, as a share, that a rate of a single sample is given when the history knows no better."""
_ORDER = {"pass": 0, "skip": 1, "error": 2, "fail": 3}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. ``worse``: it is flagged. ``spread`` and the values in ``unit``; outcomes have
    neither."""

    check: str
    what: str
    before: str
    after: str
    worse: bool
    kind: Literal["outcome", "rate", "new", "gone"]
    spread: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        spread = f" (spread {self.spread:.3g})" if self.spread is not None else ""
        return f"{self.check}: {self.what}: {self.before} -> {self.after}{spread}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``notes``: why the two runs may not be comparable, such as different evidence."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    compared: int

    @property
    def worse(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.worse)


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], history: Iterable[Mapping[str, Any]] = ()
) -> Comparison:
    """From record ``before`` to record ``after``. ``history``: more records, older ones, for the spread of
    rates.

    A rate is worse when it moved the wrong way by more than the largest of: the spread of its samples in
    either run, and half the distance between the extremes of its values in ``history`` (same board,
    target and image). A rate without any of these has :data:`ALONE`. Rates on different evidence are not
    compared.
    """
    notes = [
        f"{name}: {_of(before, name)} and {_of(after, name)}"
        for name in ("board", "target", "evidence")
        if _of(before, name) != _of(after, name)
    ]
    comparable = _of(before, "evidence") == _of(after, "evidence") and _of(before, "board") == _of(
        after, "board"
    )
    old, new = _checks(before), _checks(after)
    seen = _seen(before, history)
    changes: list[Change] = []
    compared = 0
    for name, check in new.items():
        if name not in old:
            changes.append(
                Change(name, "check", "-", str(check["outcome"]), check["outcome"] == "fail", "new")
            )
            continue
        was, now = str(old[name]["outcome"]), str(check["outcome"])
        if was != now:
            changes.append(
                Change(name, "outcome", was, now, _ORDER.get(now, 3) > _ORDER.get(was, 3), "outcome")
            )
        if comparable:
            rates = list(_rates(name, old[name], check, seen))
            compared += len(rates)
            changes += [change for change in rates if change is not None]
    gone = [name for name in old if name not in new]
    changes += [Change(name, "check", str(old[name]["outcome"]), "-", True, "gone") for name in gone]
    return Comparison(tuple(changes), tuple(notes), compared)


def _rates(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], seen: Mapping[tuple[str, str], list[float]]
) -> Iterable[Change | None]:
    """One for each rate of both: the change, or None when it is within the spread."""
    before = {str(m["name"]): m for m in old.get("measurements", [])}
    for after in new.get("measurements", []):
        title = str(after["name"])
        if title not in before or after.get("better") not in ("higher", "lower"):
            continue
        was, now = _number(before[title].get("value")), _number(after.get("value"))
        if was is None or now is None:
            continue
        spread = _spread(before[title], after, seen.get((name, title), []), was)
        moved = now - was if after["better"] == "lower" else was - now
        unit = str(after.get("unit", ""))
        if abs(moved) <= spread:
            yield None
            continue
        values = (f"{was:g} {unit}".strip(), f"{now:g} {unit}".strip())
        yield Change(name, title, *values, moved > 0, "rate", spread, unit)


def _spread(before: Mapping[str, Any], after: Mapping[str, Any], earlier: list[float], was: float) -> float:
    known = [s for s in (_number(before.get("spread")), _number(after.get("spread"))) if s is not None]
    if len(earlier) > 1:
        known.append((max(earlier) - min(earlier)) / 2)
    return max(known) if known else abs(was) * ALONE


def _seen(
    like: Mapping[str, Any], history: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str], list[float]]:
    """Values by check and measurement, of records of the same image on the same board and target."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in [*history, like]:
        same = all(_of(record, name) == _of(like, name) for name in ("board", "target", "evidence"))
        if not same or record.get("image") != like.get("image"):
            continue
        for name, check in _checks(record).items():
            for m in check.get("measurements", []):
                value = _number(m.get("value"))
                if value is not None and m.get("better"):
                    found.setdefault((name, str(m["name"])), []).append(value)
    return found


def _checks(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(check["check"]): check for check in record.get("checks", [])}


def _of(record: Mapping[str, Any], name: str) -> str:
    """A property of a record; a record of version 1 has its evidence in the checks only."""
    if name == "evidence" and "evidence" not in record:
        return " ".join(sorted({str(check.get("evidence", "")) for check in record.get("checks", [])}))
    return str(record.get(name, ""))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
