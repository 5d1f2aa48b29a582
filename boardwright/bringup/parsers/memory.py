"""How memory is divided: the kernel's own, CMA, and the CMM of AXERA's modules beside the kernel's memory.

``/proc/ax_proc/mem_cmm_info`` as the AX650 modules V1.45 to V3.6.3 print it; ``mem=`` of the kernel's command
line; ``cmmpool=`` of ``ax_cmm.ko``: ``name,flag,start,size``, several with ``:`` between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_KIB = 2**10
_MEMINFO = re.compile(r"^(\w{1,40}):\s{1,20}(\d{1,15}) kB")
_PARTITION = re.compile(
    r"PARTITION: Phys\(0x([0-9A-Fa-f]{1,16}), 0x([0-9A-Fa-f]{1,16})\), Size=(\d{1,12})KB\(\d{1,9}MB\),"
    r'\s{1,8}NAME="([^"]{0,60})"'
)
_BLOCK = re.compile(r'Block: phys\(0x[0-9A-Fa-f]{1,16}.{0,60}length=(\d{1,12})KB.{0,20}name="([^"]{0,60})"')
_TOTAL = re.compile(
    r"total size=(\d{1,12})KB\(\d{1,9}MB\),used=(\d{1,12})KB\([^)]{1,40}\),remain=(\d{1,12})KB\([^)]{1,40}\),"
    r"partition_number=(\d{1,6}),block_number=(\d{1,9})"
)
_VERSION = re.compile(r"\[Axera version\]: (ax_cmm V[\w.]{1,60})")
_AMOUNT = re.compile(r"(0x[0-9a-fA-F]{1,16}|\d{1,15})([KMGkmg]?)")
DRAM_START, DRAM_END = 0x1_0000_0000, 0x3_0000_0000
"""AX650N: DRAM of an 8 GB board as the CPU sees it (vendor's ``ax_cmm`` pools end at 0x300000000)."""


def meminfo(text: bytes | str) -> dict[str, int]:
    """``/proc/meminfo``: bytes by name."""
    found = (_MEMINFO.match(line) for line in lines(text))
    return {hit[1]: int(hit[2]) * _KIB for hit in found if hit}


@dataclass(frozen=True, slots=True)
class Pool:
    """``start`` and ``end`` physical, the end not included; ``size`` in bytes as the module says."""

    name: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Cmm:
    """Bytes, from the exact KB values. ``owners``: bytes by name of the allocation's owner."""

    version: str
    pools: tuple[Pool, ...]
    total: int
    used: int
    remain: int
    blocks: int
    owners: dict[str, int]

    def problems(self) -> list[str]:
        """Where the totals contradict themselves or the pools."""
        found = []
        if self.used + self.remain != self.total:
            found.append(f"used {self.used} and remaining {self.remain} do not make {self.total} bytes")
        if self.pools and sum(pool.size for pool in self.pools) != self.total:
            found.append(f"the pools have {sum(p.size for p in self.pools)} bytes, the total is {self.total}")
        return found


def cmm(text: bytes | str) -> Cmm | None:
    """``/proc/ax_proc/mem_cmm_info``; None without its line of totals."""
    version, pools, totals = "", [], None
    owners: dict[str, int] = {}
    for line in lines(text):
        if block := _BLOCK.search(line):
            if len(owners) < MOST_ITEMS:
                owners[block[2]] = owners.get(block[2], 0) + int(block[1]) * _KIB
        elif pool := _PARTITION.search(line):
            pools.append(Pool(pool[4], int(pool[1], 16), int(pool[2], 16) + 1, int(pool[3]) * _KIB))
        elif told := _VERSION.search(line):
            version = told[1]
        else:
            totals = _TOTAL.search(line) or totals
    if totals is None:
        return None
    total, used, remain = (int(totals[i]) * _KIB for i in (1, 2, 3))
    return Cmm(version, tuple(pools[:100]), total, used, remain, int(totals[5]), owners)


def amount(text: str) -> int | None:
    """Bytes of ``4096M``, ``6G`` or ``0x100000``, as the kernel's ``memparse`` reads them."""
    hit = _AMOUNT.fullmatch(text.strip())
    if hit is None:
        return None
    return (
        int(hit[1], 0 if hit[1].startswith("0x") else 10)
        * {"": 1, "k": _KIB, "m": 2**20, "g": 2**30}[hit[2].lower()]
    )


def mem_argument(command_line: str) -> int | None:
    """Bytes of the last ``mem=`` of a kernel command line; None without one."""
    words = [word[4:] for word in command_line[:4096].split() if word.startswith("mem=")]
    return amount(words[-1]) if words else None


def pools(argument: str) -> list[Pool]:
    """The pools of a ``cmmpool=`` argument; parts that are none are left out."""
    found = []
    for part in argument[:4096].removeprefix("cmmpool=").split(":"):
        fields = part.split(",")
        if len(fields) == 4:
            start, size = amount(fields[2]), amount(fields[3])
            if start is not None and size is not None:
                found.append(Pool(fields[0], start, start + size, size))
    return found


def overlaps(mem: int, found: list[Pool] | tuple[Pool, ...]) -> list[str]:
    """Pools that reach into the kernel's memory (``mem=`` bytes from the start of DRAM) or past its end."""
    end = DRAM_START + mem
    wrong = [
        f"pool {p.name} starts at 0x{p.start:x}, inside the kernel's memory which ends at 0x{end:x}"
        for p in found
        if p.start < end
    ]
    return wrong + [
        f"pool {p.name} ends at 0x{p.end:x}, past the end of DRAM" for p in found if p.end > DRAM_END
    ]
