"""What libalign-hunt.so reports (native/align-hunt/report.h), read, merged and shown.

Several processes may report, each its own section; the same instruction reached from the same caller is
one site.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from boardwright.errors import HostError

_NEAR = 0x1000
"""Bytes behind a symbol's end that a function without a symbol may be; a stripped Mesa has megabytes."""
_HEAD = ("count", "program", "object", "symbol", "called from", "instruction", "access", "address mod 16")


@dataclass(frozen=True, slots=True)
class Code:
    """A place in code. ``address``: as the object's symbols and ``addr2line -e OBJECT`` count, in bytes."""

    object: str
    build_id: str
    address: int
    symbol: str
    into: int
    exact: bool

    def __str__(self) -> str:
        """``memcpy+0x2c``; ``~`` before a symbol that ends before the place; far from any, the address."""
        if not self.symbol or not (self.exact or self.into < _NEAR):
            return f"0x{self.address:x}"
        return f"{'' if self.exact else '~'}{self.symbol}+0x{self.into:x}"

    @property
    def file(self) -> str:
        return PurePosixPath(self.object).name or "(no file)"


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction that faulted. ``size``: bytes of the access; ``element``: what must be aligned as one.

    ``caller`` is told for the C library's memory functions only: it is the place to look at.
    """

    program: str
    code: Code
    instruction: str
    mnemonic: str
    size: int
    element: int
    write: bool
    modulo16: tuple[int, ...]
    count: int
    emulated: bool
    caller: Code | None

    @property
    def place(self) -> Code:
        """Where to look: the caller of a memory function, else the instruction itself."""
        return self.caller or self.code

    @property
    def access(self) -> str:
        parts = f"{self.size}" if self.size == self.element else f"{self.size // self.element}x{self.element}"
        return f"{'write' if self.write else 'read'} {parts}"


@dataclass(frozen=True, slots=True)
class Report:
    """``mappings``: how often a PCI BAR was mapped. ``lost``: faults without room in the library's table.

    ``signals``: of processes that a signal ended, its number, by program.
    """

    sites: tuple[Site, ...]
    mappings: int
    lost: int
    signals: Mapping[str, int]

    @property
    def faults(self) -> int:
        return sum(site.count for site in self.sites)


def parse(text: str) -> Report:
    """Read a report. Raises ``HostError`` when it is none, or a process's part of it has no end."""
    sites: list[Site] = []
    signals: dict[str, int] = {}
    mappings = lost = 0
    program: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        entry = _object(line, number)
        if "program" in entry:
            _no_open_end(program)
            program = str(entry["program"])
        elif program is None:
            raise HostError(f"the report's line {number} belongs to no program: {line[:80]!r}")
        elif "site" in entry:
            sites.append(_site(program, entry["site"], number))
        else:
            end = entry.get("end", {})
            mappings, lost = mappings + int(end.get("mappings", 0)), lost + int(end.get("lost", 0))
            if end.get("signal"):
                signals[program] = int(end["signal"])
            program = None
    _no_open_end(program)
    if not text.strip():
        raise HostError(
            "the program left no report",
            hint="is it linked statically, or set-user-ID? Then nothing can be preloaded into it",
        )
    return Report(merged(sites), mappings, lost, signals)


def _no_open_end(program: str | None) -> None:
    if program is not None:
        raise HostError(
            f"the report of {program} has no end",
            hint="it was killed while it wrote, or two processes wrote at once; give it more --seconds",
        )


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise HostError(f"the report's line {number} is not JSON ({error}): {line[:80]!r}") from None
    if not isinstance(entry, dict):
        raise HostError(f"the report's line {number} is no object: {line[:80]!r}")
    return entry


def _site(program: str, entry: Mapping[str, Any], number: int) -> Site:
    try:
        return Site(
            program=program,
            code=_code(entry),
            instruction=entry["instruction"],
            mnemonic=entry["mnemonic"],
            size=entry["size"],
            element=entry["element"],
            write=entry["write"],
            modulo16=tuple(entry["modulo16"]),
            count=entry["count"],
            emulated=entry["emulated"],
            caller=_code(entry["caller"]) if "caller" in entry else None,
        )
    except (KeyError, TypeError) as error:
        raise HostError(f"the report's line {number} is no site: {error}") from None


def _code(entry: Mapping[str, Any]) -> Code:
    return Code(
        *(entry[key] for key in ("object", "build_id", "address", "symbol", "into", "exact")),
    )


def merged(sites: Iterable[Site]) -> tuple[Site, ...]:
    """One site for each program, instruction and caller; the most frequent first."""
    found: dict[tuple[object, ...], Site] = {}
    for site in sites:
        key = (site.program, site.code, site.instruction, site.caller)
        known = found.get(key)
        found[key] = (
            replace(
                known,
                count=known.count + site.count,
                modulo16=tuple(sorted({*known.modulo16, *site.modulo16})),
                emulated=known.emulated and site.emulated,
            )
            if known
            else site
        )
    return tuple(sorted(found.values(), key=lambda s: (-s.count, s.code.object, s.code.address)))


def table(report: Report) -> str:
    """Plain columns, a line a site, and what the numbers are of."""
    if not report.sites:
        return f"no site; card memory was mapped {report.mappings} times\n"
    rows = [_HEAD, *(_row(site) for site in report.sites)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    text = "\n".join(line.rstrip() for line in [*lines, "", *_summary(report)])
    return text + "\n"


def _row(site: Site) -> tuple[str, ...]:
    fatal = "" if site.emulated else " (died)"
    return (
        str(site.count),
        site.program,
        site.code.file,
        str(site.code),
        f"{site.caller.file} {site.caller}" if site.caller else "-",
        f"{site.instruction} {site.mnemonic}{fatal}",
        site.access,
        ",".join(map(str, site.modulo16)),
    )


def _summary(report: Report) -> Sequence[str]:
    """How many, and the places to look at: several instructions of one memcpy are one."""
    places: dict[Code, int] = {}
    for site in report.sites:
        places[site.place] = places.get(site.place, 0) + site.count
    lines = [f"{len(report.sites)} sites, {report.faults} faults, {len(places)} places:"]
    for place, count in sorted(places.items(), key=lambda item: (-item[1], str(item[0]))):
        lines.append(f"{count:>8}  {place.file} {place}")
    if report.lost:
        lines.append(f"{report.lost} faults more had no room in the library's table")
    return lines
