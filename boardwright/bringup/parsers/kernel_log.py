"""Warnings since the boot: kernel messages by level, the taint, and alignment faults taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_LEVEL = re.compile(r"^<(\d{1,3})>(.{0,1500})")
_ESR = re.compile(r"ESR(?: =|:)? 0x([0-9a-fA-F]{8,16})")
_AT = re.compile(r"^(?:\[[^\]]{1,24}\] )?pc : ([\w.]{1,80}\+0x[0-9a-f]{1,8}(?:/0x[0-9a-f]{1,8})?)")
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_TAINTS = (
    "proprietary module", "forced module load", "unsuitable hardware or SMP", "forced module unload",
    "machine check", "bad page", "request of a program", "oops or BUG", "ACPI table overridden", "warning",
    "staging driver", "firmware workaround", "out-of-tree module", "unsigned module", "soft lockup",
    "live patch", "auxiliary", "randstruct", "in-kernel test", "mutating use of fwctl",
)  # fmt: skip
"""By bit (kernel 7.3 ``Documentation/admin-guide/tainted-kernels.rst``)."""
BAD_TAINTS = frozenset({"machine check", "bad page", "oops or BUG", "warning", "soft lockup"})


@dataclass(frozen=True, slots=True)
class Levels:
    """``counts`` by level's name; ``worst``: distinct messages of level err and above, in order."""

    counts: dict[str, int]
    worst: tuple[str, ...]


def levels(raw: bytes | str) -> Levels:
    """Of ``dmesg -r``, whose lines begin with ``<level>``."""
    counts = dict.fromkeys(LEVELS, 0)
    worst: dict[str, None] = {}
    for line in lines(raw):
        if hit := _LEVEL.match(line):
            level = int(hit[1]) & 7  # facility above
            counts[LEVELS[level]] += 1
            if level <= 3 and len(worst) < MOST_ITEMS:
                worst.setdefault(re.sub(r"^\[[^\]]{1,24}\] ?", "", hit[2]).strip())
    return Levels(counts, tuple(worst))


def taints(value: int) -> list[str]:
    """The reasons in ``/proc/sys/kernel/tainted``."""
    named = [text for bit, text in enumerate(_TAINTS) if value >> bit & 1]
    return named + (["reasons unknown to this list"] if value >> len(_TAINTS) else [])


@dataclass(frozen=True, slots=True)
class AlignmentFault:
    """``write``: whether a store faulted; ``kernel``: at kernel level (else a program); ``where``: its pc."""

    write: bool
    kernel: bool
    where: str
    line: str


def alignment_faults(log: bytes | str) -> list[AlignmentFault]:
    """Data aborts with fault status 0x21, alignment (Arm ARM, ESR_ELx: EC in bits 31 to 26, WnR in bit 6)."""
    found: list[AlignmentFault] = []
    for line in lines(log):
        if hit := _ESR.search(line):
            esr = int(hit[1], 16)
            ec = esr >> 26 & 0x3F
            if ec in (0x24, 0x25) and esr & 0x3F == 0x21 and len(found) < MOST_ITEMS:
                found.append(AlignmentFault(bool(esr >> 6 & 1), ec == 0x25, "", line.strip()))
        elif found and not found[-1].where and (at := _AT.match(line)):
            last = found[-1]
            found[-1] = AlignmentFault(last.write, last.kernel, at[1], last.line)
    return found
