"""A Radeon's memory as the kernel and as programs see it: docs/patches/.

Behaviour where it shows (Device memory faults on an unaligned access), page tables and probes where it does
not. The rows need a card that the radeon driver drives: in the board's slot, or QEMU's ati-vga.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

import pytest

from boardwright.bringup.bench import Bench
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.console.shell import Result
from boardwright.errors import HostError
from boardwright.hunt import lab

NORMAL, NORMAL_NC = "MEM/NORMAL", "MEM/NORMAL-NC"
DEVICE = {"nGnRE": "DEVICE/nGnRE", "nGnRnE": "DEVICE/nGnRnE"}
"""Attributes as the kernel's page-table dump names them (kernel 7.3 arch/arm64/mm/ptdump.c)."""
ATTRIBUTES = {0: NORMAL, 1: NORMAL, 2: NORMAL_NC, 3: DEVICE["nGnRnE"], 4: DEVICE["nGnRE"]}
"""By index in a page's protection, bits 4 to 2 (kernel 7.3 arch/arm64/include/asm/memory.h, MT_*)."""
_COHERENT = (
    "p=$(readlink -f {device}); while [ ! -e $p/of_node/compatible ]; do p=${{p%/*}}; done; "
    "n=$(readlink -f $p/of_node); "
    'while [ "$n" != "${{n#/sys/firmware/devicetree/base}}" ]; do '
    "test -e $n/dma-coherent && echo yes && break; n=${{n%/*}}; done"
)
"""The port and what it is in, up to the root (kernel 7.3 drivers/of/address.c, of_dma_is_coherent)."""
_TRACING = "/sys/kernel/tracing"


@dataclass(frozen=True)
class Card:
    """A card that radeon drives. ``device_memory``: ttm's parameter; None in a kernel without that topic."""

    address: str
    coherent: bool
    announced: bool
    device_memory: str | None


@pytest.fixture
def card(console: Console) -> Card:
    console.run("modprobe radeon", 120)
    found = console.run("ls -d /sys/bus/pci/drivers/radeon/0* 2>/dev/null").output.split()
    if not found:
        pytest.skip("no card is driven by radeon")
    snoops = console.run(_COHERENT.format(device=found[0])).line == "yes"
    said = console.run('dmesg | grep -c "radeon.*DMA doesn\'t snoop the CPU caches"').line
    mode = console.run("cat /sys/module/ttm/parameters/device_memory")
    return Card(found[0].rpartition("/")[2], snoops, said != "0", mode.line if mode.status == 0 else None)


@pytest.fixture
def programs(console: Console) -> str:
    """Where the programs of the lab are on the board."""
    if not lab.unpack(console, "lab", "/run/lab"):
        pytest.skip("the programs of the lab are not there: --lab brings them")
    return "/run/lab"


def test_card(console: Console, card: Card, check: Check) -> None:
    """radeon binds its card and keeps the display"""
    log = console.run("dmesg | grep -E 'radeon|\\[drm'", 60).output
    rings = re.findall(r"ring test on (\d+) succeeded", log)
    failed = re.findall(r"ring (?:\d+ )?test failed \(.*?\)\)?", log)
    shown = failed[0] if failed else f"rings {' '.join(rings) or 'none'} succeed"
    check.measure("ring tests", shown, "emulated cards execute no commands: failed is right there")
    nodes = console.run(f"ls /sys/bus/pci/devices/{card.address}/drm").output.split()
    check.require(any(node.startswith("card") for node in nodes), f"no display node: {nodes or 'nothing'}")
    check.require(bool(rings or failed), "the driver's log has no ring test, passed or failed")


def test_coherence_is_said(card: Card, check: Check) -> None:
    """radeon says whether its DMA snoops the caches"""
    if card.device_memory is None:
        pytest.skip("this kernel has not the topic radeon-noncoherent")
    text = {True: "snoops", False: "does not snoop"}
    check.equal("DMA", text[not card.announced], text[card.coherent])


def test_card_memory_for_programs(console: Console, card: Card, programs: str, check: Check) -> None:
    """card memory is mapped for programs as asked"""
    mode = card.device_memory or "off"
    expected = NORMAL_NC if mode == "off" else DEVICE[mode]
    row, attributes = _mapped(console, programs, "vram")
    if attributes:
        check.equal("attributes", attributes, expected)
    check.equal("bytes", row["bytes"], "right")
    check.equal("an unaligned access", row["unaligned"], "taken" if mode == "off" else "alignment fault")


@pytest.mark.parametrize("kind", ["system", "system-wc"])
def test_system_memory_for_programs(
    kind: str, console: Console, card: Card, programs: str, check: Check
) -> None:
    """buffers in memory ({kind}) are mapped for programs as the card's coherence asks"""
    cached = card.coherent or card.device_memory is None
    row, attributes = _mapped(console, programs, kind)
    if attributes:
        check.equal("attributes", attributes, NORMAL if cached else NORMAL_NC)
    check.equal("bytes", row["bytes"], "right")
    check.equal("an unaligned access", row["unaligned"], "taken")


def test_ring_for_the_kernel(console: Console, card: Card, bench_: Bench, check: Check) -> None:
    """the ring is mapped for the kernel as the card's coherence asks"""
    # A driver whose ring test fails unmaps its ring at once, so this looks while it binds again.
    if bench_.options.target != "qemu":
        pytest.skip("the driver would have to let go of the card and bind again")
    driver = "/sys/bus/pci/drivers/radeon"
    again = f"echo {card.address} > {driver}/unbind; echo {card.address} > {driver}/bind"
    bound, attributes = _probed(console, "map", "vmap prot=%x3:x64", again)
    check.require(bound.status == 0, f"the driver does not bind again: {bound.line}")
    if attributes is None:
        pytest.skip("the kernel has no probes (CONFIG_KPROBE_EVENTS)")
    cached = card.coherent or card.device_memory is None
    check.equal("attributes", attributes, NORMAL if cached else NORMAL_NC)


def test_card_memory_for_the_kernel(console: Console, card: Card, check: Check) -> None:
    """card memory is mapped for the kernel as asked"""
    resource = console.run(f"head -1 /sys/bus/pci/devices/{card.address}/resource").line.split()
    first, last = (int(word, 16) for word in resource[:2])
    console.run("sysctl -qw kernel.kptr_restrict=1")
    found: set[str] = set()
    for line in console.run("grep ioremap /proc/vmallocinfo", 60).output.splitlines():
        where = re.search(r"phys=(0x[0-9a-f]+)", line)
        if where and first <= int(where[1], 16) <= last:
            start, _, end = line.split()[0].partition("-")
            found |= _attributes(console, start, end)
    if not found:
        pytest.skip("no mapping of it is left, or the page tables are not shown (CONFIG_PTDUMP_DEBUGFS)")
    mode = card.device_memory or "off"
    check.equal("attributes", " ".join(sorted(found)), NORMAL_NC if mode == "off" else DEVICE[mode])


def _attributes(console: Console, start: str, end: str) -> set[str]:
    """What the kernel's page tables say of the addresses from ``start`` to ``end``."""
    inside = f'split($1, r, "-") && r[1] < "{end}" && r[2] > "{start}"'
    table = console.run(f"awk {shlex.quote(inside)} /sys/kernel/debug/kernel_page_tables", 120)
    return set(re.findall(r"(?:MEM|DEVICE)/[A-Za-z-]+", table.output))


def _mapped(console: Console, programs: str, kind: str) -> tuple[dict[str, str], str | None]:
    """How a buffer behaves for a program, and the attributes its pages were given."""
    probe = "vmf_insert_pfn_prot prot=%x3:x64"
    answer, attributes = _probed(console, "page", probe, f"{programs}/radeon-lab {kind}")
    if answer.status != 0:
        raise HostError(f"radeon-lab: {answer.line}")
    return json.loads(answer.line), attributes


def _probed(console: Console, name: str, probe: str, command: str) -> tuple[Result, str | None]:
    """Run ``command`` under a kernel probe on a function whose fourth argument (AAPCS64: x3) is a protection.

    Its result, and the attributes seen; None when the kernel has no probes, or this one was never hit.
    """
    console.run(f"mountpoint -q {_TRACING} || mount -t tracefs tracefs {_TRACING}")
    event = f"events/boardwright/{name}"
    ready = console.run(
        f"cd {_TRACING} && (test -d {event} || echo 'p:boardwright/{name} {probe}' >> kprobe_events) && "
        f"echo > trace && echo 1 > {event}/enable"
    )
    try:
        answer = console.run(command, 120)
    finally:
        seen = console.run(f"cd {_TRACING} && echo 0 > {event}/enable; grep -o 'prot=.*' trace")
    if ready.status != 0:
        return answer, None
    values = re.findall("prot=(0x[0-9a-f]+)", seen.output)
    return answer, " ".join(
        sorted({ATTRIBUTES.get(int(value, 16) >> 2 & 7, "?") for value in values})
    ) or None
