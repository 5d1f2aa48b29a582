"""A run as one HTML page that needs nothing else: table, findings, plots, and the transcript they link to.

What a board said is hostile until shown otherwise: jinja2 escapes it, control and direction characters are
spelt out, and the page's own policy forbids scripts and anything from outside.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardwright.results import plots
from boardwright.results.outcome import Outcome

if TYPE_CHECKING:
    import jinja2

MOST_LINES = 20_000
"""Lines of a transcript on the page; of a longer one the middle is left out, but not what is linked."""
_TEMPLATE = Path(__file__).with_name("report.html.j2")
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, and those that have no width or turn the direction of a text around."""
_FRAME = re.compile(r"^ {0,9}(?:\d{1,6}\.\d{1,4} {1,3})?(?:\d{1,9}\|)?")
_STATUS = {0: "pass", 1: "fail", 3: "error", 130: "interrupted"}
_SKIP = str(Outcome.SKIP)
_OUTCOMES = (str(Outcome.PASS), str(Outcome.FAIL), str(Outcome.ERROR), _SKIP)
_ORDER = {str(Outcome.FAIL): 0, str(Outcome.ERROR): 1, str(Outcome.PASS): 2}
"""Of the rows: what is wrong stands first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the transcript, ``number`` from 1."""

    number: int
    text: str
    found: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at. ``line`` 0: the transcript has no such line."""

    name: str
    text: str
    line: int


def page(record: Mapping[str, Any], transcript: Iterable[str]) -> str:
    """The page of a record and the lines of ``console.log``, such as ``   12.345  text``."""
    from markupsafe import Markup

    lines = [visible(line) for line in transcript]
    index = _Index(lines)
    rows = [_row(check, index) for check in record.get("checks", [])]
    looked_at = sorted(
        (row for row in rows if row["outcome"] != _SKIP), key=lambda row: _ORDER[row["outcome"]]
    )
    boot = record.get("boot", {})
    findings = [
        Finding(
            visible(str(f.get("name", ""))),
            visible(str(f.get("line", ""))),
            index.find(str(f.get("line", ""))),
        )
        for f in boot.get("findings", [])
    ]
    linked = {f.line for row in rows for f in row["findings"]} | {f.line for f in findings}
    shown, left_out = _shown(lines, linked)
    return _template().render(
        title=visible(
            f"{record.get('board', '')} on {record.get('target', '')}, {_when(record.get('started', ''))}"
        ),
        verdict=_STATUS.get(int(record.get("exit_status", 3)), "error"),
        facts=_facts(record),
        counts=[(outcome, sum(row["outcome"] == outcome for row in rows)) for outcome in _OUTCOMES],
        rows=looked_at,
        skipped=_skipped(rows),
        findings=findings,
        plots=[Markup(svg) for svg in _plots(record) if svg],  # made by plots.py, which escapes
        transcript=shown,
        left_out=left_out,
    )


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text())


def visible(text: str) -> str:
    """Characters that would not show, or would turn what is shown around, as ``\\x1b``."""
    return _UNSEEN.sub(lambda hit: hit[0].encode("unicode_escape", "surrogatepass").decode(), text)


class _Index:
    """Where a line is in the transcript, without its time or the frame of a command's answer."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._at: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            self._at.setdefault(_bare(line), number)

    def find(self, line: str) -> int:
        return self._at.get(_bare(visible(line)), 0) if line.strip() else 0


def _bare(line: str) -> str:
    return _FRAME.sub("", line, count=1).strip()


def _when(started: object) -> str:
    """``2026-12-03 04:46 UTC``; what is no time stays as it is."""
    try:
        at = datetime.fromisoformat(str(started))
    except ValueError:
        return str(started)
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at.tzinfo else str(started)


def _skipped(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each reason to skip with the checks that share it, in the order of the run."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row["outcome"] == _SKIP:
            reason = " ".join(text for text in (row["detail"], row["hint"]) if text) or "no reason given"
            groups.setdefault(reason, []).append(row["check"])
    return [{"reason": r, "checks": "; ".join(names), "count": len(names)} for r, names in groups.items()]


def _row(check: Mapping[str, Any], index: _Index) -> dict[str, Any]:
    measurements = [
        {"name": visible(str(m.get("name", ""))), "shown": _value(m), "expected": _text(m.get("expected"))}
        for m in check.get("measurements", [])
    ]
    outcome = str(check.get("outcome", ""))
    return {
        "check": visible(str(check.get("check", ""))),
        "outcome": outcome if outcome in _OUTCOMES else str(Outcome.ERROR),
        "evidence": visible(str(check.get("evidence", ""))),
        "detail": visible(str(check.get("detail", ""))),
        "hint": visible(str(check.get("hint", ""))),
        "measurements": measurements,
        "findings": [
            Finding("", visible(str(line)), index.find(str(line))) for line in check.get("lines", [])
        ],
    }


def _value(measurement: Mapping[str, Any]) -> str:
    unit = f" {measurement['unit']}" if measurement.get("unit") else ""
    return visible(str(measurement.get("text") or f"{_text(measurement.get('value'))}{unit}"))


def _text(value: object) -> str:
    return "-" if value is None else visible(str(value))


def _facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    manifest = record.get("manifest") or {}
    facts = {
        "image": record.get("image", {}).get("sha256", ""),
        "lock": record.get("lock", {}).get("sha256", ""),
        "evidence": record.get("evidence", ""),
        "kernel": (manifest.get("kernel") or {}).get("release", ""),
        "boardwright": (manifest.get("tool") or {}).get("revision", ""),
        **{f"{stage} (as printed)": version for stage, version in record.get("firmware", {}).items()},
    }
    return [(visible(str(name)), visible(str(value))) for name, value in facts.items() if value]


def _plots(record: Mapping[str, Any]) -> list[str]:
    """Boot stages, the samples of each rate, and rates that belong to one check side by side."""
    boot = record.get("boot", {})
    stages = [(visible(str(name)), float(seconds)) for name, seconds in boot.get("stages", [])]
    found = [plots.stages("boot", stages)]
    for check in record.get("checks", []):
        single = []
        for m in check.get("measurements", []):
            title = visible(f"{check.get('check', '')}: {m.get('name', '')}")
            unit = visible(str(m.get("unit", "")))
            if m.get("series"):
                found.append(plots.line(title, [float(v) for v in m["series"]], unit))
            elif m.get("better") and isinstance(m.get("value"), int | float):
                single.append((visible(str(m["name"])), float(m["value"]), unit))
        for unit in dict.fromkeys(unit for _, _, unit in single):
            values = [(name, value) for name, value, of in single if of == unit]
            if len(values) > 1:
                found.append(plots.bars(visible(str(check.get("check", ""))), values, unit))
    return found


def _shown(lines: Sequence[str], linked: set[int]) -> tuple[list[Line], int]:
    half = MOST_LINES // 2
    shown = [
        Line(number, line, number in linked)
        for number, line in enumerate(lines, start=1)
        if number <= half or number > len(lines) - half or number in linked
    ]
    return shown, len(lines) - len(shown)
