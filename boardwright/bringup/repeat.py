"""A run again and again: lab errors tried anew, and a run repeated until it fails.

Only a lab error is ever tried again. A failure of the product is a finding, and trying until it passes would
hide it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boardwright.errors import BoardwrightError, ExitStatus, HostError, InputError

Once = Callable[[int], int]
"""One whole run; its argument is the attempt, from 1. An exit status, or a ``HostError`` raised."""


_WORDS = {ExitStatus.OK: "pass", ExitStatus.PRODUCT: "fail", ExitStatus.HOST: "error"}


@dataclass(frozen=True, slots=True)
class Plan:
    """``times``: runs. ``until_fail``: the first failure of the product ends them. ``retries``: after a lab
    error."""

    times: int = 1
    until_fail: bool = False
    retries: int = 0

    def __post_init__(self) -> None:
        if self.until_fail and self.times == 1:
            raise InputError("--until-fail takes the number of runs to make at most", hint="add --repeat 100")
        if not 1 <= self.times <= 100_000 or not 0 <= self.retries <= 100:
            raise InputError(
                f"expected 1 to 100000 runs and 0 to 100 retries, found {self.times} and {self.retries}"
            )


def repeated(once: Once, plan: Plan, say: Callable[[str], None]) -> int:
    """Run by the plan; the exit status of the worst run: product, then lab, then none.

    An interrupted run ends all.
    """
    worst = ExitStatus.OK
    passed = 0
    for number in range(1, plan.times + 1):
        try:
            status = _with_retries(once, plan, say)
        except HostError as error:
            if plan.times == 1:
                raise
            say(f"error: {error}")  # one bad moment of the lab does not end a night's runs
            status = ExitStatus.HOST
        if status == ExitStatus.INTERRUPTED:
            return status
        passed += status == ExitStatus.OK
        if plan.times > 1:
            say(f"run {number} of {plan.times}: {_WORDS[ExitStatus(status)]}; {passed} of {number} passed")
        if status == ExitStatus.PRODUCT or (status and worst != ExitStatus.PRODUCT):
            worst = ExitStatus(status)
        if plan.until_fail and status == ExitStatus.PRODUCT:
            break
    return worst


def _with_retries(once: Once, plan: Plan, say: Callable[[str], None]) -> int:
    for attempt in range(1, plan.retries + 2):
        last = attempt == plan.retries + 1
        try:
            status = once(attempt)
            reason = "the lab failed"
        except HostError as error:
            if last:
                raise
            status, reason = ExitStatus.HOST, error.message
        except BoardwrightError:
            raise
        if status != ExitStatus.HOST or last:
            return status
        say(f"{reason}: attempt {attempt + 1} of {plan.retries + 1}")
    raise AssertionError("not reached")
