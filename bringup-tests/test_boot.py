"""The first checks of any board: did it boot what was built, the way the board file says?

Each check's first line is its row in the table. Fixtures: boardwright/bringup/plugin.py.
"""

from __future__ import annotations

import time

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.expectation import Expectation
from boardwright.bringup.plugin import Check
from boardwright.console.console import BootReport, Console
from boardwright.console.patterns import Severity, classify
from boardwright.layout import memory

SETTLE_SECONDS = 300.0
"""systemd's own limit for a unit's start is 90 s (DefaultTimeoutStartSec); a device may take that long."""
CLOCK_TOLERANCE = 300
"""Seconds; emulation starts from the host's clock, and an emulated CPU may fall behind."""


def test_boot(boot: BootReport, check: Check) -> None:
    """boots to a shell"""
    check.measure("boot seconds", round(boot.seconds, 1), text=f"{boot.seconds:.1f} s")
    for name, seconds in boot.milestones.items():
        check.measure(f"{name} seconds", round(seconds, 1))


def test_image(bench_: Bench, expected: Expectation, check: Check) -> None:
    """image is the one the manifest describes"""
    found = bench_.image_sha256
    if found is None:
        pytest.skip("a recording has no image to compare")
    if expected.image_sha256 is None:
        pytest.skip("the manifest names no image")
    check.measure("sha256", found[:16], expected.image_sha256[:16])
    check.require(
        found == expected.image_sha256,
        f"the image's SHA-256 is {found}, the manifest says {expected.image_sha256}",
        hint="the image was changed after it was built: build it again",
    )


def test_kernel_release(console: Console, expected: Expectation, check: Check) -> None:
    """kernel release as built"""
    if expected.kernel_release is None:
        pytest.skip("the manifest names no kernel release")
    check.equal("kernel release", console.run("uname -r").line, expected.kernel_release)


def test_command_line(console: Console, expected: Expectation, check: Check) -> None:
    """kernel command line as built"""
    found = " ".join(console.run("cat /proc/cmdline").line.split())
    check.measure("command line", found, expected.append or " ".join(expected.words))
    if expected.append is not None:
        check.require(found == expected.append, f"expected {expected.append!r}, found {found!r}")
    for key in dict.fromkeys(word.partition("=")[0] for word in expected.words):
        wanted, same = (
            [word for word in words if word.partition("=")[0] == key]
            for words in (expected.words, found.split())
        )
        check.require(
            same == wanted,
            f"expected {' '.join(wanted)!r} and no other {key}, found {same or 'nothing'}",
        )


def test_cma(console: Console, expected: Expectation, check: Check) -> None:
    """CMA size and place as the board file says"""
    if expected.cma is None:
        pytest.skip("the board file asks for no contiguous memory")
    below, size = expected.cma.below, expected.cma.size
    total = memory.cma_total(console.run("cat /proc/meminfo").output)
    area = memory.reserved(console.run("dmesg | grep cma:").output)
    shown = f"{total} at 0x{area.base:x}" if area and total else str(total)
    check.measure("CMA", shown, f"{size} below {below}")
    check.measure("CmaTotal bytes", None if total is None else int(total), int(size))
    check.require(total is not None and total > 0, "the kernel has no contiguous memory area")
    check.require(total == size, f"CMA: expected {size}, found {total}")
    check.require(area is not None, "the kernel log does not say where the contiguous area is")
    assert area is not None
    check.require(
        area.end <= below, f"CMA: expected all of it below {below}, found its end at 0x{area.end:x}"
    )


def test_root(console: Console, bench_: Bench, expected: Expectation, check: Check) -> None:
    """root mounted from the image's root partition"""
    board.need_gpt(bench_)
    source, uuid = _row(console, "findmnt -no SOURCE,PARTUUID /", 2)
    check.measure("root", f"{source} {uuid}", expected.root_partuuid)
    if expected.root_partuuid is None:
        pytest.skip("neither manifest nor image names the root partition")
    check.require(
        uuid.lower() == expected.root_partuuid,
        f"root: expected PARTUUID {expected.root_partuuid}, found {uuid} ({source})",
    )
    written = console.run("touch /.boardwright && rm /.boardwright")
    check.require(written.status == 0, f"the root cannot be written: {written.line}")


def test_root_grown(console: Console, bench_: Bench, check: Check) -> None:
    """root grown to the end of the disk"""
    board.need_gpt(bench_)
    source, _ = _row(console, "findmnt -no SOURCE,FSTYPE /", 2)
    name = source.rpartition("/")[2]
    sectors = console.run(f"cat /sys/class/block/{name}/start /sys/class/block/{name}/../size").line.split()
    start, disk = (int(word) * 512 for word in sectors)
    blocks = console.run("stat -fc '%b %S' /").line.split()
    usable = int(blocks[0]) * int(blocks[1])
    share = usable / (disk - start)
    check.measure("root share of the disk behind its start", round(share, 3), ">= 0.9",
                  text=f"{usable / 2**20:.0f} of {(disk - start) / 2**20:.0f} MiB")  # fmt: skip
    check.require(share >= 0.9, f"root: {share:.0%} of the disk behind its start, expected at least 90%",
                  hint="did the first boot grow partition and file system?")  # fmt: skip


def test_system_running(console: Console, check: Check) -> None:
    """system is running"""
    state = console.run("systemctl is-system-running --wait", SETTLE_SECONDS).line
    check.equal("system state", state, "running", hint=_failed_units(console))


def test_no_failed_unit(console: Console, check: Check) -> None:
    """no unit failed"""
    units = _failed_units(console)
    check.measure("failed units", units or "none", "none")
    check.require(not units, f"failed units: {units}")


def test_clock(console: Console, bench_: Bench, expected: Expectation, check: Check) -> None:
    """clock is sane"""
    seconds = int(console.run("date -u +%s").line)
    shown = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
    check.measure("clock", seconds, "not before the image was made", text=shown)
    check.require(seconds >= expected.epoch, f"the clock says {shown}, which is before the image was made")
    check.require(seconds >= 1_700_000_000, f"the clock says {shown}: it was never set")
    if bench_.options.target == "qemu":
        offset = seconds - time.time()
        check.measure("clock offset seconds", round(offset, 1), f"within {CLOCK_TOLERANCE}")
        check.require(abs(offset) <= CLOCK_TOLERANCE, f"the clock is {offset:.0f} s off the host's")


@pytest.mark.parametrize("module", ["radeon", "rocket"])
def test_module(module: str, console: Console, check: Check) -> None:
    """module {module} loads"""
    where = console.run(f"modinfo -F filename {module}")
    if where.status == 127:
        pytest.skip("the root has no modinfo (package kmod)")
    if where.status != 0:
        check.measure("module", "not in this kernel", "loads")
        pytest.skip("module not in this kernel")
    if "builtin" in where.line:
        check.measure("module", "built in", "loads")
        return
    loaded = console.run(f"modprobe {module}", 120)
    check.measure("module", "loads" if loaded.status == 0 else loaded.line, "loads")
    check.require(loaded.status == 0, f"modprobe {module}: {loaded.line}")
    listed = console.run(f"test -d /sys/module/{module}")
    check.require(listed.status == 0, f"modprobe {module} said nothing, but it is not among the modules")


def test_kernel_log(console: Console, bench_: Bench, check: Check) -> None:
    """no oops, panic or warning in the kernel log"""  # last, so that modules have been loaded
    log = console.run("dmesg", 60).output
    found = [finding for line in log.splitlines() if (finding := classify(line))]
    faults = [f for f in [*bench_.boot().findings, *found] if f.severity > Severity.NOTE]
    check.measure("faults in the kernel log", len(faults), 0)
    check.require(not faults, "; ".join(f"{f.name}: {f.line}" for f in faults[:3]))


def _failed_units(console: Console) -> str:
    lines = console.run("systemctl list-units --failed --no-legend --plain").output.splitlines()
    return ", ".join(line.split()[0] for line in lines if line.strip())


def _row(console: Console, command: str, count: int) -> tuple[str, ...]:
    words = console.run(command).line.split()
    assert len(words) == count, f"expected {count} words from {command!r}, found {words}"
    return tuple(words)
