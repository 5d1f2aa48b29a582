"""The words of a result: outcome, evidence, measurement, and the record of one check."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from boardwright.errors import ExitStatus

Value = str | int | float | bool | None


class Outcome(enum.StrEnum):
    PASS = "pass"
    FAIL = "fail"
    """The product is wrong."""
    ERROR = "error"
    """Lab, cable or tool is wrong; nothing is known of the product."""
    SKIP = "skip"
    """Not looked at, for the reason given."""


class Evidence(enum.StrEnum):
    """What an outcome rests on."""

    HARDWARE = "hardware"
    EMULATED = "emulated"
    MODELLED = "modelled"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value with its name and what was expected of it."""

    name: str
    value: Value
    expected: Value = None
    text: str = ""
    """How people read the value; empty: as it is."""
    unit: str = ""
    """``fps``, ``tok/s``, ``s``, ``B/s``; empty for words and counts."""
    spread: float | None = None
    """Half of the distance from the lowest to the highest of the samples behind a rate, in its unit."""
    better: Literal["", "higher", "lower"] = ""
    """Which way is progress; empty: the value is not compared from run to run."""
    series: tuple[float, ...] = ()
    """The samples behind a rate, in order, for a plot."""

    @property
    def shown(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return self.text or ("-" if self.value is None else f"{self.value}{unit}")

    def as_json(self) -> dict[str, Any]:
        """Name, value and expectation; the rest only where there is any."""
        value: dict[str, Any] = {"name": self.name, "value": self.value, "expected": self.expected}
        more = {
            "text": self.text,
            "unit": self.unit,
            "spread": self.spread,
            "better": self.better,
            "series": list(self.series),
        }
        return value | {key: item for key, item in more.items() if item not in ("", None, [])}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one run. ``detail``: why it is not a pass. ``lines``: of the console, it rests on them."""

    check: str
    outcome: Outcome
    evidence: Evidence
    seconds: float
    measurements: tuple[Measurement, ...] = ()
    detail: str = ""
    hint: str = ""
    lines: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "outcome": str(self.outcome),
            "evidence": str(self.evidence),
            "seconds": round(self.seconds, 3),
            "measurements": [m.as_json() for m in self.measurements],
            "detail": self.detail,
            "hint": self.hint,
            **({"lines": list(self.lines)} if self.lines else {}),
        }


def exit_status(results: Iterable[CheckResult]) -> ExitStatus:
    """A product failure outweighs a lab error, since it is a fact; no result at all is a lab error."""
    outcomes = {result.outcome for result in results}
    if Outcome.FAIL in outcomes:
        return ExitStatus.PRODUCT
    if Outcome.ERROR in outcomes or Outcome.PASS not in outcomes:
        return ExitStatus.HOST
    return ExitStatus.OK
