"""A Radeon's command rings and its base addresses, from what the kernel said: docs/radeon.md.

The expected rings come from the chip that the driver names, never from the card's marketing name.
"""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import amdgpu, pci, radeon
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.results.outcome import Evidence

_IB_TEST = "cat /sys/kernel/debug/dri/*/amdgpu_test_ib"
_PARAMETERS = "grep -H . /sys/module/radeon/parameters/uvd /sys/module/radeon/parameters/vce"


def test_radeon_rings(console: Console, bench_: Bench, check: Check) -> None:
    """radeon: every ring of the chip passes its ring and IB test"""
    console.run("modprobe radeon", 120)
    report = radeon.parse(board.kernel_log(console), parameters=console.run(_PARAMETERS).output)
    if not report.seen:
        pytest.skip("radeon drives no card")
    passed = [ring for ring, test in report.rings.items() if test.passed]
    wanted = len(report.expected) if report.expected is not None else None
    shown = f"{len(passed)} of {wanted if wanted is not None else len(report.rings)}"
    check.measure("rings", len(passed), wanted, text=shown)
    check.measure("IBs", sum(test.passed for test in report.ibs.values()), wanted)
    if report.chip is not None:
        check.measure("chip", report.chip.name)
        check.rests_on(report.chip.line)
    for kind, tests in (("ring", report.rings), ("IB", report.ibs)):
        for number, test in sorted(tests.items()):
            check.rests_on(test.line)
            if test.microseconds is not None:
                check.measure(f"{kind} test of {radeon.ring_name(number)}", test.microseconds, unit="us")
            if test.value is not None:
                check.measure(f"{kind} test of {radeon.ring_name(number)} left", f"0x{test.value:08X}")
    check.rests_on(*(cause.raw for cause in report.causes))
    problems = report.problems()
    old = report.chip is not None and report.chip.generation == "r100"
    if problems and bench_.evidence is Evidence.EMULATED and old:
        pytest.skip(f"an emulated card executes no commands: {problems[0]}")
    hint = "pictures work, only UVD or VCE does not" if radeon.video_lost(report) else "docs/radeon.md"
    check.require(not problems, "; ".join(problems[:4]), hint=hint)


def test_amdgpu_rings(console: Console, check: Check) -> None:
    """amdgpu: no ring or IB test failed, and the IB tests have run"""
    report = amdgpu.parse(board.kernel_log(console))
    if not report.seen:
        pytest.skip("amdgpu drives no card")
    if not report.conclusive:  # the tests run 2 s after the probe; debugfs runs them again and waits
        asked = console.run(_IB_TEST, 90)
        report = amdgpu.parse(board.kernel_log(console), asked.output if asked.status == 0 else "")
    told = [*report.rings.values(), *report.ibs.values()]
    failed = sum(not test.passed for test in told)
    problems = report.problems()
    if report.silent:
        shown = "no test told of" if problems else "no failure told"
    else:
        shown = f"{failed} of {len(told)} told of failed"
    check.measure("failed tests", failed, 0, text=shown)
    if report.chip is not None:
        check.measure("chip", report.chip.name)
        check.rests_on(report.chip.line)
    check.rests_on(*(test.line for test in told), *(cause.raw for cause in report.causes))
    check.require(not problems, "; ".join(problems[:4]), hint="docs/radeon.md")
    if not report.conclusive:
        pytest.skip("the kernel log ends before the IB tests, and debugfs has no amdgpu_test_ib")


def test_base_addresses(console: Console, check: Check) -> None:
    """PCI: every BAR has an address"""
    board.need(console, "lspci", "package pciutils")
    devices = pci.lspci(console.run("lspci -vv", 60).output)
    log = board.kernel_log(console)
    ports = pci.silent_ports(log)
    check.rests_on(*ports)
    if not devices:
        pytest.skip(f"no PCI device: {ports[0]}" if ports else "no PCI device")
    told = [bar for bar in pci.assignments(log) if not bar.assigned and not bar.ports]
    failed = [bar for bar in told if bar.kind == "BAR"]
    windows = [bar for bar in told if bar.kind == "bridge window"]
    unassigned = [f"{d.address} BAR {index}" for d in devices for index in d.unassigned]
    total = sum(len(d.regions) for d in devices)
    check.measure(
        "BARs with an address", total - len(unassigned), total, text=f"{total - len(unassigned)} of {total}"
    )
    for device in devices:
        if device.link and device.capable:
            check.measure(f"link of {device.address}", f"{device.link[0]:g} GT/s x{device.link[1]}",
                          f"at most {device.capable[0]:g} GT/s x{device.capable[1]}")  # fmt: skip
    if windows:  # no failure by itself: there may be nothing behind the bridge that needs it
        check.measure("bridge windows without room", len(windows), text=_sizes(windows))
    check.rests_on(*(bar.line for bar in [*windows, *failed]))
    sizes = ", ".join(f"{b.device} BAR {b.index} of {(b.size or 0) / 2**20:g} MiB" for b in failed)
    check.require(
        not failed and not unassigned,
        f"no address for {sizes or ', '.join(unassigned)}",
        hint=f"no room in the bridge's window: {_sizes(windows)}"
        if windows
        else "RK3588's windows hold 1 GiB prefetchable: resizable BARs and root-port BARs may not fit",
    )


def _sizes(windows: list[pci.Bar]) -> str:
    return ", ".join(f"{bar.device} {(bar.size or 0) / 2**20:g} MiB" for bar in windows)
