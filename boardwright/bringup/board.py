"""What several checks ask a board: its kernel log, whether it has a program, and the state of its clocks."""

from __future__ import annotations

import shlex

import pytest

from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import clocks
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.image import names
from boardwright.results.outcome import Evidence


def kernel_log(console: Console) -> str:
    return console.run("dmesg", 60).output


def need(console: Console, program: str, why: str = "") -> None:
    """Skip the check when the board has no such program."""
    if console.run(f"command -v {shlex.quote(program)}").status != 0:
        pytest.skip(f"the root has no {program}{f': {why}' if why else ''}")


def need_hardware(bench: Bench, why: str) -> None:
    """Skip the check in an emulator, where it would measure the host."""
    if bench.evidence in (Evidence.EMULATED, Evidence.MODELLED):
        pytest.skip(why)


def need_gpt(bench: Bench) -> None:
    """Skip a check of partitions with a GUID on a board whose disk has no table."""
    if names.has_no_table(bench.board):
        pytest.skip("this board's disk has no partition table: see the checks of test_maix.py")


def conditions(console: Console, check: Check) -> list[str]:
    """Note temperature and clocks before a rate is measured; what speaks against judging that rate."""
    found = clocks.parse(console.run(clocks.COMMAND).output)
    problems = found.problems()
    if found.hottest is not None:
        check.measure("temperature before", found.hottest, unit="degrees C")
    if found.clocks:
        check.measure("governors", " ".join(sorted({clock.governor for clock in found.clocks})))
    if problems:
        check.measure("speaks against the rate", "; ".join(problems))
    return problems
