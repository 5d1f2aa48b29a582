"""The kernel's alignment_fixup against the CPU on RAM: docs/patches/alignment-fixup.md.

It needs a kernel with that topic, a BAR of RAM and the disk ``lab``; `invoke bringup --lab` brings the last
two.
"""

from __future__ import annotations

import re

import pytest

from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.errors import HostError
from boardwright.hunt import fixup, lab

DIRECTORY = "/run/lab"
SECONDS = 1200.0
CANNOT_RUN = 2
"""fixup-lab's exit status when it has not what it needs."""


def test_fixup(console: Console, check: Check) -> None:
    """alignment_fixup does what the CPU does on RAM, and counts it"""
    if not fixup.available(console):
        pytest.skip("the kernel has no alignment_fixup (CONFIG_ARM64_ALIGNMENT_FIXUP)")
    bar = lab.bar(console)
    if bar is None:
        pytest.skip("the board has no BAR of RAM (ivshmem-plain) to map as Device memory: --lab brings one")
    if not lab.unpack(console, "lab", DIRECTORY):
        pytest.skip("the programs of the lab are not there: --lab brings them")
    before = fixup.counters(console)
    done = console.run(f"{DIRECTORY}/fixup-lab {bar}", SECONDS)
    if done.status == CANNOT_RUN or not re.search(r"^1\.\.\d+$", done.output, re.MULTILINE):
        raise HostError(f"fixup-lab could not run: {done.line[-200:]}")
    counted = fixup.counters(console).since(before)
    results = re.findall(r"^(not )?ok \d+ *-? *(.*)$", done.output, re.MULTILINE)
    wrong = [name for failed, name in results if failed]
    check.measure(
        "tests",
        len(results) - len(wrong),
        len(results),
        text=f"{len(results) - len(wrong)} of {len(results)}",
    )
    check.measure("accesses emulated", counted.fixed, "> 0")
    check.require(bool(results) and counted.fixed > 0, "fixup-lab emulated nothing")
    check.require(not wrong, f"failed: {'; '.join(wrong)[:300]}")
    check.require(done.status == 0, f"fixup-lab ended with status {done.status}")
