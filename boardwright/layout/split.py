"""Memory between Linux and the NPU's CMM driver: two numbers the vendor keeps by hand in two places.

``mem=`` of the bootargs ends Linux's memory; ``cmmpool=`` of ``insmod ax_cmm.ko`` says where pools lie
(AX650 SDK, build/projects/AX650_pipro_box.mak, ``OS_MEM`` and ``CMM_POOL_PARAM``). Nothing on the board
compares them. Here both come from one :class:`Split`. Addresses and sizes are bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from boardwright.errors import InputError
from boardwright.layout.extents import Extent
from boardwright.layout.models import MODELS, STEP
from boardwright.schema.units import Size

if TYPE_CHECKING:
    from boardwright.schema.board import Memory

MIB = 2**20
_POOL = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+),(?P<flag>[0-9]+),(?P<start>0x[0-9A-Fa-f]{1,12}),(?P<size>[0-9]{1,9})(?P<unit>[KMG])"
)
_UNITS = {"K": 2**10, "M": MIB, "G": 2**30}


class Pool(Extent, frozen=True):
    """A pool: ``offset`` is its physical address. ``flag``: 0 wherever it was seen."""

    flag: int = 0


class Split(msgspec.Struct, frozen=True):
    """Who has which memory. Linux has ``linux`` bytes from ``base`` on."""

    base: int
    dram: int
    linux: int
    pools: tuple[Pool, ...]
    reserved: tuple[Extent, ...] = ()

    @property
    def end(self) -> int:
        """The first address behind the DRAM."""
        return self.base + self.dram

    @property
    def cmm(self) -> Size:
        """Bytes of all pools."""
        return Size(sum(pool.size for pool in self.pools))

    @property
    def mem(self) -> str:
        """The value of ``mem=``."""
        return _megabytes(self.linux)

    @property
    def cmmpool(self) -> str:
        """The value of ``cmmpool=``: ``name,flag,start,size``, pools divided by colons."""
        return ":".join(
            f"{pool.name},{pool.flag},0x{pool.offset:X},{_megabytes(pool.size)}" for pool in self.pools
        )

    def __str__(self) -> str:
        return f"linux {Size(self.linux)}, cmm {self.cmm}"


def _megabytes(size: int) -> str:
    """``3072M``, as the SDK writes it; smaller units where that would not be exact."""
    unit = next((unit for unit in "MK" if size % _UNITS[unit] == 0), "")
    return f"{size // _UNITS[unit]}{unit}" if unit else str(size)


def parse_cmmpool(value: str) -> tuple[Pool, ...]:
    """Pools of a ``cmmpool=`` value. Raises ``InputError`` naming the pool that is wrong."""
    pools = []
    for number, word in enumerate(value.split(":"), start=1):
        match = _POOL.fullmatch(word)
        if match is None:
            raise InputError(
                f"cmmpool: pool {number}: expected such as 'anonymous,0,0x1C0000000,5120M', "
                f"found {word[:60]!r}"
            )
        size = int(match["size"]) * _UNITS[match["unit"]]
        pools.append(Pool(match["name"], int(match["start"], 16), size, int(match["flag"])))
    return tuple(pools)


def parse_mem(value: str) -> int:
    """Bytes of a ``mem=`` value. Raises ``InputError``."""
    match = re.fullmatch(r"([0-9]{1,9})([KMG])", value)
    if match is None:
        raise InputError(f"mem: expected such as '3072M', found {value[:40]!r}")
    return int(match[1]) * _UNITS[match[2]]


def of(memory: Memory) -> Split | None:
    """The split of a board; None for a board without one. Whether it can be is for ``split_rules`` to say."""
    if memory.linux is None and memory.cmm is None and memory.cmm_for is None and not memory.pools:
        return None
    reserved = tuple(Extent(r.name, r.address, int(r.size)) for r in memory.reserved)
    base, dram = memory.base, int(memory.dram)
    if memory.pools:
        pools = tuple(Pool(p.name, p.address, int(p.size)) for p in memory.pools)
        first = min(pool.offset for pool in pools) - base
        return Split(base, dram, int(memory.linux) if memory.linux is not None else first, pools, reserved)
    linux, cmm = memory.linux, memory.cmm
    if linux is None and cmm is None:
        model = MODELS.get(memory.cmm_for or "")
        cmm = Size(-(-model.need // STEP) * STEP) if model else Size(0)
    if linux is None:
        linux = Size(dram - int(cmm or 0))
    elif cmm is None:
        cmm = Size(dram - linux)
    return Split(base, dram, int(linux), (Pool("anonymous", base + linux, int(cmm or 0)),), reserved)
