"""The system around the kernel: memory's split, disks, network, temperature, time of the boot, the loader."""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.expectation import Expectation
from boardwright.bringup.parsers import (
    axera,
    boot_time,
    clocks,
    kernel_log,
    memory,
    network,
    provenance,
    storage,
)
from boardwright.bringup.plugin import Check
from boardwright.console import transcript
from boardwright.console.console import Console
from boardwright.console.errors import CommandTimeout
from boardwright.results.outcome import Evidence

SETTLE_SECONDS = 300.0
"""systemd's own limit for a unit's start is 90 s (DefaultTimeoutStartSec)."""
_LSBLK = "lsblk -b -P -o NAME,TYPE,SIZE,PARTLABEL,PARTUUID,FSTYPE,MOUNTPOINT"


def test_cmm(console: Console, check: Check) -> None:
    """CMM beside the kernel's memory, as mem= and the pools say"""
    shown = console.run("cat /proc/ax_proc/mem_cmm_info")
    if shown.status != 0:
        pytest.skip("no CMM on this board: it belongs to AXERA's modules")
    found = memory.cmm(shown.output)
    check.require(found is not None, "mem_cmm_info has no line of totals")
    assert found is not None
    check.measure("CMM", found.total, text=f"{found.total // 2**20} MiB", unit="B")
    check.measure("CMM in use", found.used, unit="B")
    check.measure("firmware: CMM", found.version or None)
    sdk = axera.version(console.run("cat /proc/ax_proc/version").output)
    check.measure("firmware: AX650 SDK", sdk.text if sdk else None)
    if "modelled" in found.version:  # native/ax-standin
        check.evidence = Evidence.MODELLED
    mem = memory.mem_argument(console.run("cat /proc/cmdline").line)
    check.measure("mem=", mem, unit="B")
    problems = found.problems() + (memory.overlaps(mem, found.pools) if mem is not None else [])
    check.require(not problems, "; ".join(problems))


def test_storage_layout(console: Console, bench_: Bench, check: Check) -> None:
    """partitions are those of the board file"""
    board.need_gpt(bench_)
    board.need(console, "lsblk", "package util-linux")
    blocks = storage.lsblk(console.run(_LSBLK).output)
    disk = _root_disk(blocks)
    if disk is None:
        pytest.skip("the root is on no partition that lsblk shows")
    found = [b.label for b in blocks if b.kind == "part" and b.name.startswith(disk)]
    wanted = [p.name for p in bench_.board.partitions]
    check.measure("partitions", " ".join(found), " ".join(wanted))
    check.require(found == wanted, f"partitions of {disk}: expected {wanted}, found {found}")
    for part, expected in zip(
        [b for b in blocks if b.label in wanted], bench_.board.partitions, strict=False
    ):
        check.require(
            part.filesystem == expected.filesystem,
            f"partition {part.label}: expected {expected.filesystem}, found {part.filesystem or 'nothing'}",
        )


def test_storage_speed(console: Console, bench_: Bench, check: Check) -> None:
    """the disk reads at the speed of its kind"""
    board.need_hardware(bench_, "an emulated disk has the speed of the host's")
    board.need(console, "dd")
    disk = _root_disk(storage.lsblk(console.run(_LSBLK).output))
    if disk is None:
        pytest.skip("the root is on no partition that lsblk shows")
    slowest = 100e6 if disk.startswith("nvme") else 10e6  # SD cards of class 10: 10 MB/s
    rates = []
    for skip in (0, 64, 128):
        done = console.run(f"dd if=/dev/{disk} of=/dev/null bs=4M count=32 skip={skip} iflag=direct", 120)
        rate = storage.dd_rate(done.output)
        check.require(rate is not None, f"dd told no speed: {done.line[-200:]}")
        rates.append((rate or 0.0) / 1e6)
    rate = check.rate("reading", rates, "MB/s", f">= {slowest / 1e6:g}")
    check.require(rate >= slowest / 1e6, f"{disk} reads {rate:.1f} MB/s")


def test_network(console: Console, check: Check) -> None:
    """an interface with a cable has an address"""
    board.need(console, "ip", "package iproute2")
    links = console.run("ip -o link").output
    found = network.interfaces(links, console.run("ip -o addr").output)
    if not found:
        pytest.skip("no network interface")
    shown = [f"{i.name} {' '.join(i.addresses) or 'no address'}" for i in found if i.carrier]
    check.measure("interfaces with a cable", "; ".join(shown) or "none")
    if not shown:
        pytest.skip(f"no cable in {', '.join(i.name for i in found)}")
    check.require(any(i.addresses for i in found if i.carrier), f"no address: {'; '.join(shown)}")


def test_temperature(console: Console, check: Check) -> None:
    """board is not hot"""
    found = clocks.parse(console.run(clocks.COMMAND).output)
    if found.hottest is None:
        pytest.skip("no temperature sensor")
    check.measure("hottest", found.hottest, f"below {clocks.HOT:g}", unit="degrees C")
    for zone, degrees in found.temperatures.items():
        check.measure(zone, degrees, unit="degrees C")
    hot = [problem for problem in found.problems() if "degrees" in problem]
    check.require(not hot, "; ".join(hot), hint="heat sink and fan; every rate of this run is suspect")


def test_boot_time(console: Console, bench_: Bench, check: Check) -> None:
    """where the time of the boot went"""
    boot = bench_.boot()
    check.rate("power-on to shell", [boot.seconds], "s", better="lower")
    for name, seconds in boot_time.stages(boot.milestones, boot.seconds):
        check.rate(f"stage {name}", [seconds], "s", better="lower")
    if console.run("command -v systemd-analyze").status != 0:
        return
    try:
        console.run("systemctl is-system-running --wait", SETTLE_SECONDS)
        said = console.run("systemd-analyze; systemd-analyze blame | head -n 5", SETTLE_SECONDS).output
    except CommandTimeout:
        if bench_.evidence is Evidence.HARDWARE:
            raise
        check.measure("systemd-analyze", "no answer in time")  # an emulator on a busy host
        return
    found = boot_time.systemd(said)
    for part, seconds in found.parts.items():
        check.rate(f"systemd: {part}", [seconds], "s", better="lower")
    for unit, seconds in found.slowest:
        check.measure(f"unit {unit}", seconds, unit="s")
    check.require(found.finished, "systemd is still starting units", hint="systemctl list-jobs")


def test_loader(bench_: Bench, expected: Expectation, console: Console, check: Check) -> None:  # noqa: ARG001
    """the loader is the image's own"""
    said = transcript.timed_lines(transcript.read(bench_.transcript))
    loader = provenance.parse(transcript.untimed(said))
    if not loader.versions:
        pytest.skip("the kernel was started without a loader, or before the console was heard")
    check.measure("U-Boot", loader.versions.get("u-boot"), expected.loader)
    check.measure("came from", loader.medium)
    for stage, version in loader.versions.items():
        check.measure(f"firmware: {stage}", version)
    if loader.chip:
        check.measure("chip", loader.chip)
        check.measure("boot reason", loader.reason or None)
        check.measure("bootargs", "U-Boot's default" if loader.default_bootargs else "its environment's")
    board.need_hardware(bench_, "the emulator brings a U-Boot of its own")
    if expected.loader is None:
        pytest.skip("the image has no loader of its own: the board started it with what its flash holds")
    wrong = provenance.differs(loader, expected.loader)
    check.require(
        wrong is None, str(wrong), hint="docs/boot-rock5b.md: boot order, and how to erase SPI flash"
    )


def test_kernel_messages(console: Console, check: Check) -> None:
    """the kernel is not tainted by a fault"""
    found = kernel_log.levels(console.run("dmesg -r", 60).output)
    for level in ("emerg", "alert", "crit", "err", "warn"):
        check.measure(f"messages of level {level}", found.counts[level])
    value = console.run("cat /proc/sys/kernel/tainted").line
    reasons = kernel_log.taints(int(value)) if value.isascii() and value.isdigit() else []
    check.measure("taint", ", ".join(reasons) or "none")
    check.headline()
    check.rests_on(*found.worst[:20])
    faults = kernel_log.alignment_faults(board.kernel_log(console))
    check.measure("alignment faults", len(faults), 0)
    check.rests_on(*(fault.line for fault in faults))
    bad = [reason for reason in reasons if reason in kernel_log.BAD_TAINTS]
    check.require(not bad, f"tainted: {', '.join(bad)}")
    at = ", ".join(sorted({fault.where or "unknown" for fault in faults if fault.kernel}))
    check.require(not at, f"alignment faults in the kernel at {at}", hint="docs/patches/alignment-fixup.md")


def _root_disk(blocks: list[storage.Block]) -> str | None:
    root = next((b for b in blocks if b.mounted == "/" and b.kind == "part"), None)
    disks = [b.name for b in blocks if b.kind == "disk" and root is not None and root.name.startswith(b.name)]
    return disks[0] if disks else None
