"""The pytest plug-in: fixtures for checks, and their outcomes in our four words instead of pytest's.

A check raises ``ProductError`` (or fails an ``assert``) when the product is wrong; any other exception is
a lab error, for a tool that broke has said nothing about the product.
"""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from boardwright.bringup.bench import Bench
from boardwright.bringup.expectation import Expectation
from boardwright.console.console import BootReport, Console
from boardwright.errors import BoardwrightError, ProductError
from boardwright.results.outcome import CheckResult, Evidence, Measurement, Outcome, Value


class Mismatch(ProductError):
    """A measured value is not the expected one."""


@dataclass
class Check:
    """What a check found. The first measurement is the one in the table."""

    measurements: list[Measurement] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    evidence: Evidence | None = None
    """When it is weaker than what the target gives: a functional model on a real board, too, is modelled."""

    def measure(
        self, name: str, value: Value, expected: Value = None, *, text: str = "", unit: str = ""
    ) -> None:
        """Note a value; nothing is compared."""
        self.measurements.append(Measurement(name, value, expected, text, unit))

    def rate(
        self,
        name: str,
        samples: Sequence[float],
        unit: str,
        expected: Value = None,
        *,
        better: Literal["higher", "lower"] = "higher",
    ) -> float:
        """Note the middle one of the samples, with their spread; from run to run it is compared.

        Raises ``Mismatch`` without samples: what should have been measured was not.
        """
        if not samples:
            raise Mismatch(f"{name}: not one sample")
        value = round(statistics.median(samples), 6)
        spread = round((max(samples) - min(samples)) / 2, 6) if len(samples) > 1 else None
        text = f"{value:.4g} {unit}" + (f" ± {spread:.2g}" if spread is not None else "")
        self.measurements.append(
            Measurement(name, value, expected, text, unit, spread, better, tuple(samples[:2000]))
        )
        return value

    def headline(self) -> None:
        """Make the last measurement the one in the table."""
        self.measurements.insert(0, self.measurements.pop())

    def rests_on(self, *lines: str) -> None:
        """Note lines of the console that the outcome rests on; the report links to them."""
        self.lines += [line for line in lines if line][:50]

    def equal(self, name: str, value: Value, expected: Value, *, hint: str | None = None) -> None:
        """Note a value and fail unless it is the expected one."""
        self.measure(name, value, expected)
        if value != expected:
            raise Mismatch(f"{name}: expected {expected!r}, found {value!r}", hint=hint)

    def require(self, holds: bool, message: str, *, hint: str | None = None) -> None:
        """Fail with ``message`` unless ``holds``."""
        if not holds:
            raise Mismatch(message, hint=hint)


@dataclass
class Session:
    """One run of pytest over the checks: its bench, and what came out."""

    bench: Bench
    results: list[CheckResult] = field(default_factory=list)
    on_result: Any = None
    """Called with each ``CheckResult`` as it comes."""
    now: str = ""
    """The check that is running, for who watches."""

    @pytest.fixture(scope="session")
    def bench_(self) -> Bench:
        return self.bench

    @pytest.fixture(scope="session")
    def expected(self, bench_: Bench) -> Expectation:
        """What the board file, the manifest and the image say."""
        return bench_.expected

    @pytest.fixture(scope="session")
    def boot(self, bench_: Bench) -> BootReport:
        """The boot. Only the check of the boot itself asks for it; its failure is that check's. Others take
        ``console``, which skips them, and then ``bench_.boot()``."""
        return bench_.boot()

    @pytest.fixture
    def console(self, bench_: Bench) -> Console:
        """The board's shell; a check that needs it is skipped when there is none."""
        if bench_.boot_failed:
            pytest.skip("there is no shell to ask: see the check of the boot")
        return bench_.console

    @pytest.fixture
    def check(self, request: pytest.FixtureRequest) -> Check:
        """Where a check notes what it measures."""
        check = Check()
        request.node.stash[_CHECK] = check
        return check

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only the checks asked for; of them the boot's first, for a boot's failure is that check's."""
        items[:] = [item for item in items if is_asked_for(item, self.bench.options.only)]
        items.sort(key=_needs_a_shell)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.now = title(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        item.stash[_SECONDS] = item.stash.get(_SECONDS, 0.0) + call.duration
        if report.when == "call" or (report.when == "setup" and not report.passed):
            outcome, detail, hint = judge(call.excinfo)
            found = item.stash.get(_CHECK, Check())
            state = getattr(call.excinfo.value, "state", "") if call.excinfo is not None else ""
            if state:  # what a console's error is called (docs/console.md)
                found.measure("state", state, "shell")
                found.headline()
            result = CheckResult(
                title(item), outcome, found.evidence or self.bench.evidence, item.stash[_SECONDS],
                tuple(found.measurements), detail, hint, tuple(found.lines),
            )  # fmt: skip
            self.results.append(result)
            if self.on_result is not None:
                self.on_result(result)
        return report


_CHECK = pytest.StashKey[Check]()
_SECONDS = pytest.StashKey[float]()


def is_asked_for(item: pytest.Item, only: str) -> bool:
    """Whether one of the words (commas between) is in the check's name, its file's name, or its title."""
    words = [word.strip().lower() for word in only.split(",") if word.strip()]
    names = f"{item.name}\n{item.path.stem}\n{title(item)}".lower()
    return not words or any(word in names for word in words)


def _needs_a_shell(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return "boot" not in fixtures or "console" in fixtures


def judge(excinfo: pytest.ExceptionInfo[BaseException] | None) -> tuple[Outcome, str, str]:
    """Outcome, detail and hint of how a check ended."""
    if excinfo is None:
        return Outcome.PASS, "", ""
    error = excinfo.value
    if isinstance(error, pytest.skip.Exception):
        return Outcome.SKIP, str(error.msg), ""
    if isinstance(error, BoardwrightError):
        outcome = Outcome.FAIL if isinstance(error, ProductError) else Outcome.ERROR
        return outcome, error.message, error.hint or ""
    if isinstance(error, AssertionError):
        return Outcome.FAIL, str(error).splitlines()[0] if str(error) else "an assertion failed", ""
    return Outcome.ERROR, f"{type(error).__name__}: {error}", "the check broke: it is wrong, or the lab is"


def title(item: pytest.Item) -> str:
    """The first line of the check's docstring, with the parameters of this case in braces filled in."""
    function = getattr(item, "function", None)
    text = (inspect.getdoc(function) or item.name).splitlines()[0].rstrip(".")
    callspec = getattr(item, "callspec", None)
    parameters: Mapping[str, Any] = callspec.params if callspec is not None else {}
    return text.format(**parameters) if parameters else text
