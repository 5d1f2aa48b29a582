"""The Device memory lab: libc's copies and Mesa's helper on a PCI BAR, as Device memory and as Normal-NC.

It needs what the board does not have by itself: a BAR of ivshmem-plain and the disk ``lab``
(boardwright/hunt/lab.py); `invoke bringup --lab` brings both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from boardwright.bringup.bench import Bench
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.errors import HostError
from boardwright.hunt import lab
from boardwright.results.outcome import Value

DIRECTORY = "/run/lab"
SECONDS = 1800.0
"""Some 300,000 signals; a minute and a half on an idle host with two processors."""

HELPER = "util_device_"
"""What the names of Mesa's functions begin with (patches/mesa/aligned-access); the others are libc's."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A line of align-lab: combinations of size and offsets, those that died, those that left wrong bytes.

    ``first`` to die: its ``size``, offsets ``target`` and ``source``, and where ``at`` it faulted, in bytes.
    """

    memory: str
    function: str
    direction: str
    combinations: int
    faults: int
    wrong: int
    first: dict[str, int] | None

    @property
    def name(self) -> str:
        return f"{self.function} {self.direction} {self.memory}"


@pytest.fixture(scope="session")
def results() -> list[Measured]:
    """Filled by the first check that asks: the lab takes minutes, and each check judges a part."""
    return []


@pytest.fixture
def measured(bench_: Bench, console: Console, results: list[Measured]) -> list[Measured]:
    """What align-lab found."""
    if bench_.options.target == "replay":
        pytest.skip("a recording has no BAR to map as Device memory")
    if not results:
        results += _run(console)
    return results


def _run(console: Console) -> list[Measured]:
    bar = lab.bar(console)
    if bar is None:
        pytest.skip("the board has no BAR of RAM (ivshmem-plain) to map as Device memory: --lab brings one")
    if not lab.unpack(console, "lab", DIRECTORY):
        pytest.skip("the board has no disk with the lab's programs")
    done = console.run(f"{DIRECTORY}/align-lab {bar}", SECONDS)
    if done.status != 0:
        raise HostError(f"align-lab ended with status {done.status}: {done.line[-200:]}")
    return [Measured(**{"first": None, **json.loads(line)}) for line in done.output.splitlines()]


def test_normal_memory(measured: list[Measured], check: Check) -> None:
    """copies on RAM and on Normal-NC: no fault, right bytes"""
    _clean([m for m in measured if m.memory in ("ram", "normal-nc")], check)


def test_libc_on_device_memory(measured: list[Measured], check: Check) -> None:
    """libc's copies on Device memory: die, as they must"""
    found = [m for m in measured if m.memory == "device" and not m.function.startswith(HELPER)]
    assert found, "align-lab tried none of libc's functions"
    _measure(found, check, "> 0")
    spared = [m.name for m in found if m.faults == 0]
    check.require(
        not spared,
        f"Device memory is not enforced here: no combination died of {', '.join(spared)}",
        hint="QEMU before 10.2 raises these faults only with two processors or more, each in its own thread",
    )
    wrong = [m.name for m in found if m.wrong]
    check.require(not wrong, f"combinations that did not die left wrong bytes: {', '.join(wrong)}")


def test_helper_on_device_memory(measured: list[Measured], check: Check) -> None:
    """Mesa's copies on Device memory: no fault, right bytes"""
    found = [m for m in measured if m.memory == "device" and m.function.startswith(HELPER)]
    if not found:
        pytest.skip("this lab was built without patches/mesa/aligned-access")
    _clean(found, check)


def _measure(found: list[Measured], check: Check, expected: Value) -> None:
    total, faults = sum(m.combinations for m in found), sum(m.faults for m in found)
    check.measure("combinations that died", faults, expected, text=f"{faults} of {total}")
    for one in found:
        check.measure(f"{one.name} faults", one.faults, expected, text=f"{one.faults} of {one.combinations}")


def _clean(found: list[Measured], check: Check) -> None:
    _measure(found, check, 0)
    for one in found:
        check.require(
            one.faults == 0, f"{one.name}: {one.faults} combinations died, the first at {one.first}"
        )
        check.require(one.wrong == 0, f"{one.name}: {one.wrong} combinations left wrong bytes")
