"""Memory of a board as arithmetic: the contiguous memory area (CMA), asked for and found again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from boardwright.layout.extents import MemoryFault
from boardwright.schema.board import Cma, Memory
from boardwright.schema.units import Size

CMA_ALIGNMENT = Size(4 * 2**20)
"""``CMA_MIN_ALIGNMENT_BYTES`` with 4 KiB pages on arm64: one page block, at most ``MAX_PAGE_ORDER`` 10
(kernel 6.12 ``include/linux/cma.h``, ``include/linux/pageblock-flags.h``)."""

LOW_LIMIT = Size(2**32)
DEVICE_HOLE = Size(256 * 2**20)
"""RK3588 keeps 0xf000_0000 to 0xffff_ffff for devices: of the DRAM below 4 GiB 3.75 GiB can be reached
(U-Boot 2025.01 ``include/configs/rk3588_common.h``, ``SDRAM_MAX_SIZE``; kernel 7.3 ``rk3588-base.dtsi``)."""

LEFT_BELOW = Size(512 * 2**20)
"""Below the limit this much must stay for everything else: kernel, DMA zone, firmware."""


def cma_argument(cma: Cma) -> str:
    """The kernel's ``cma=`` value: ``512M@0-4G``.

    Syntax ``nn[MG]@[start[MG][-end[MG]]]`` (kernel ``Documentation/admin-guide/kernel-parameters.txt``).
    It overrides a ``linux,cma`` node (kernel ``kernel/dma/contiguous.c``, ``rmem_cma_setup``). An end equal
    to the size would ask for exactly address 0 (``dma_contiguous_reserve``, ``fixed``): :func:`faults` keeps
    them apart.
    """
    return f"{_kernel_size(cma.size)}@0-{_kernel_size(cma.below)}"


def _kernel_size(size: int) -> str:
    for unit, factor in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(int(size))


def faults(memory: Memory) -> list[MemoryFault]:
    """Everything wrong with a board's CMA; ``split_rules.faults`` judges the rest of its memory."""
    return list(_faults(memory)) if memory.cma else []


def _faults(memory: Memory) -> Iterator[MemoryFault]:
    cma = memory.cma
    assert cma is not None
    if cma.size == 0 or cma.size % CMA_ALIGNMENT:
        yield MemoryFault(
            ("memory", "cma", "size"),
            f"expected a multiple of {CMA_ALIGNMENT}, found {cma.size}",
            hint="the kernel reserves whole page blocks",
        )
    room = available_below(memory, cma.below) - LEFT_BELOW
    if cma.size > room:
        yield MemoryFault(
            ("memory", "cma", "size"),
            f"{cma.size} do not fit below {cma.below}: at most {Size(max(0, room) // 2**20 * 2**20)} there",
            hint=f"{LEFT_BELOW} stay for everything else",
        )


def available_below(memory: Memory, limit: int) -> Size:
    """Bytes of DRAM that can be reached below the address ``limit``, on a board whose DRAM begins at 0."""
    end = min(memory.dram, limit)
    hole = min(end, LOW_LIMIT) - (LOW_LIMIT - DEVICE_HOLE)
    return Size(end - max(0, hole))


class Reserved(msgspec.Struct, frozen=True):
    """What the kernel says it reserved: bytes, and the physical address where they begin."""

    size: Size
    base: int

    @property
    def end(self) -> int:
        return self.base + self.size


_RESERVED = re.compile(r"(?<!\w)cma: Reserved (?P<mib>\d+) MiB at (?:0x)?(?P<base>[0-9a-f]+)")
_POOL = re.compile(
    r"Reserved memory: created CMA memory pool at (?:0x)?(?P<base>[0-9a-f]+), size (?P<mib>\d+) MiB"
)
_TOTAL = re.compile(r"^CmaTotal: +(\d+) kB$", re.MULTILINE)


def reserved(log: str) -> Reserved | None:
    """The reservation that a kernel log reports.

    ``cma: Reserved 512 MiB at 0x… [on node -1]`` of the command line or the configuration (kernel
    ``mm/cma.c``), ``Reserved memory: created CMA memory pool at 0x…, size 512 MiB`` of a ``linux,cma`` node
    (``kernel/dma/contiguous.c``); kernels 6.12 and 7.3.
    """
    match = _RESERVED.search(log) or _POOL.search(log)
    return Reserved(Size(int(match["mib"]) * 2**20), int(match["base"], 16)) if match else None


def cma_total(meminfo: str) -> Size | None:
    """``CmaTotal`` of ``/proc/meminfo`` in bytes; None for a kernel without CMA."""
    match = _TOTAL.search(meminfo)
    return Size(int(match[1]) * 1024) if match else None


def drawing(memory: Memory) -> str:
    """The memory of a board in words, for ``invoke layout``."""
    lines = [f"memory  {memory.dram} of DRAM, {available_below(memory, LOW_LIMIT)} of it below 4GiB"]
    if memory.cma:
        cma = memory.cma
        lines.append(f"        CMA {cma.size} below {cma.below}: cma={cma_argument(cma)}")
    return "\n".join(lines)
