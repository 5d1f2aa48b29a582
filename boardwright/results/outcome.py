"""The words of a result: outcome, evidence, measurement, and the record of one check."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    """A value with its name (and unit, in the name, where it has one), and what was expected of it."""

    name: str
    value: Value
    expected: Value = None
    text: str = ""
    """How people read the value; empty: as it is."""

    @property
    def shown(self) -> str:
        return self.text or ("-" if self.value is None else str(self.value))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of one run. ``detail``: why it is not a pass."""

    check: str
    outcome: Outcome
    evidence: Evidence
    seconds: float
    measurements: tuple[Measurement, ...] = ()
    detail: str = ""
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "outcome": str(self.outcome),
            "evidence": str(self.evidence),
            "seconds": round(self.seconds, 3),
            "measurements": [
                {"name": m.name, "value": m.value, "expected": m.expected} for m in self.measurements
            ],
            "detail": self.detail,
            "hint": self.hint,
        }


def exit_status(results: Iterable[CheckResult]) -> ExitStatus:
    """A product failure outweighs a lab error, since it is a fact; no result at all is a lab error."""
    outcomes = {result.outcome for result in results}
    if Outcome.FAIL in outcomes:
        return ExitStatus.PRODUCT
    if Outcome.ERROR in outcomes or Outcome.PASS not in outcomes:
        return ExitStatus.HOST
    return ExitStatus.OK
