"""Base address registers: what the kernel could place, and what ``lspci -vv`` shows of the result.

Kernel log: ``drivers/pci/setup-res.c`` and ``setup-bus.c``. Up to 6.1's first releases ``BAR 0: assigned
[mem …]`` and ``BAR 0: no space for [mem size …]``; later, Debian's 6.1.192 included, ``BAR 0 [mem …]:
assigned`` and ``BAR 0 [mem size …]: can't assign; no space``, with ``bridge window`` in place of BAR 13 to
15 (7 to 10 in a kernel without ``CONFIG_PCI_IOV``, whose virtual functions have 7 to 12 otherwise).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from boardwright.bringup.parsers.dmesg import Message, messages
from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_OLD = re.compile(
    r"BAR (\d{1,2}): (assigned|no space for|failed to assign|can't reserve|error updating) "
    r"\[(mem|io) ([^\]]{1,80})\]"
)
_NEW = re.compile(
    r"((?:VF )?BAR|bridge window|ROM)(?: (\d{1,2}))? \[(mem|io) ([^\]]{1,80})\]: "
    r"(assigned|can't assign; no space|failed to assign|can't claim|releasing|not claimed)"
)
_RANGE = re.compile(r" ?0x([0-9a-f]{1,16})(?:-0x([0-9a-f]{1,16}))?")
_SIZE = re.compile(r"size 0x([0-9a-f]{1,16})")
_FAILED = ("no space for", "failed to assign", "can't assign; no space")
_HEAD = re.compile(r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.{1,300})")
_REGION = re.compile(
    r"(?:Region (\d): )?(Memory|I/O ports) at (<unassigned>|<ignored>|[0-9a-f]{1,16})"
    r"(?: \(([^)]{1,60})\))?(?: \[(virtual|disabled)\])?(?: \[size=(\d{1,6})([KMGT]?)\])?"
)
_LINK = re.compile(
    r"Lnk(Cap|Sta):.{0,60}?Speed (\d{1,3}(?:\.\d)?)GT/s(?: \(\w{1,12}\))?, "
    r"Width x(\d{1,2})(?: \((\w{1,12})\))?"
)
_NO_LINK = re.compile(
    r"phy lock failed|Phy link never came up|PCIe Link Fail|"
    r"probe of [0-9a-f]{1,16}\.pcie failed with error -\d|probe with driver [\w-]{0,40}pcie\w{0,20} failed"
)
_DRIVER = re.compile(r"Kernel driver in use: ([\w-]{1,60})")
_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class Bar:
    """What the log's last word on a BAR is. ``kind``: ``BAR``, ``bridge window``, or what a card works
    without, ``VF BAR`` and ``ROM``. ``index`` only of a BAR. ``size`` in bytes.

    ``start`` None: it has no address. ``prefetchable`` and ``wide``: as the kernel writes ``pref``,
    ``64bit``.
    """

    device: str
    kind: str
    index: int | None
    assigned: bool
    size: int | None
    start: int | None
    ports: bool
    prefetchable: bool
    wide: bool
    line: str


def assignments(log: bytes | str) -> list[Bar]:
    """Every BAR and bridge window that the kernel placed or could not place, the last word on each."""
    found: dict[tuple[str, str, int | None, bool, bool], Bar] = {}
    for m in messages(log):
        bar = _assignment(m)
        if bar is not None and len(found) < MOST_ITEMS:
            found[(bar.device, bar.kind, bar.index, bar.prefetchable, bar.ports)] = bar
    return list(found.values())


def _assignment(m: Message) -> Bar | None:
    if old := _OLD.search(m.text):
        number, verdict, space, resource = int(old[1]), old[2], old[3], old[4]
        kind = "BAR" if number < 6 else "ROM" if number == 6 else "bridge window"
    elif new := _NEW.search(m.text):
        kind, number, space, resource, verdict = new[1], int(new[2] or 0), new[3], new[4], new[5]
    else:
        return None
    if verdict != "assigned" and verdict not in _FAILED:
        return None
    where, size = _RANGE.match(resource), _SIZE.search(resource)
    start = int(where[1], 16) if where and verdict == "assigned" else None
    length = int(size[1], 16) if size else None
    if where and where[2]:
        length = max(int(where[2], 16) - int(where[1], 16) + 1, 0)
    return Bar(
        m.device, kind, number if kind == "BAR" else None, verdict == "assigned", length, start,
        space == "io", "pref" in resource, "64bit" in resource, m.raw,
    )  # fmt: skip


def silent_ports(log: bytes | str) -> list[str]:
    """The kernel's words on a PCIe port behind which nothing answers: no card, or one without power."""
    return [m.text for m in messages(log) if _NO_LINK.search(m.text)][:100]


@dataclass(frozen=True, slots=True)
class Region:
    """A BAR in ``lspci``: ``start`` None when it has no address; ``size`` in bytes."""

    index: int
    kind: str
    start: int | None
    size: int | None
    prefetchable: bool
    disabled: bool


@dataclass(frozen=True, slots=True)
class Device:
    """A device of ``lspci -vv``. ``link`` and ``capable``: (GT/s, lanes) now and at best."""

    address: str
    title: str
    regions: tuple[Region, ...]
    driver: str
    link: tuple[float, int] | None
    capable: tuple[float, int] | None

    @property
    def unassigned(self) -> tuple[int, ...]:
        return tuple(r.index for r in self.regions if r.start is None)


def lspci(text: bytes | str) -> list[Device]:
    """The devices of ``lspci -vv`` (pciutils 3.13), in its order."""
    return [_device(head, body) for head, body in _blocks(text)][:1000]


def _blocks(text: bytes | str) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in lines(text):
        if begins := _HEAD.match(line):
            if head is not None:
                yield head, body
            head, body = begins, []
        elif len(body) < 500:
            body.append(line)
    if head is not None:
        yield head, body


def _device(head: re.Match[str], body: list[str]) -> Device:
    regions: list[Region] = []
    driver = ""
    links: dict[str, tuple[float, int]] = {}
    for line in body:
        if at := _REGION.search(line):
            number = int(at[1]) if at[1] else len(regions)
            start = None if at[3].startswith("<") else int(at[3], 16)
            size = int(at[6]) * _UNIT[at[7]] if at[6] else None
            flags = at[4] or ""
            prefetchable = "prefetchable" in flags and "non-prefetchable" not in flags
            regions.append(Region(number, at[2], start, size, prefetchable, at[5] == "disabled"))
        elif link := _LINK.search(line):
            links[link[1]] = (float(link[2]), int(link[3]))
        elif named := _DRIVER.search(line):
            driver = named[1]
    return Device(head[1], head[2], tuple(regions), driver, links.get("Sta"), links.get("Cap"))
