"""Memory of a board as arithmetic: the contiguous memory area (CMA), asked for and found again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from boardwright.errors import InputError
from boardwright.schema.board import Cma, Memory
from boardwright.schema.units import Size

CMA_ALIGNMENT = Size(4 * 2**20)
"""``CMA_MIN_ALIGNMENT_BYTES`` with 4 KiB pages on arm64: one page block, at most ``MAX_PAGE_ORDER`` 10
(kernel 6.12 ``include/linux/cma.h``, ``include/linux/pageblock-flags.h``)."""

LOW_LIMIT = Size(2**32)
DEVICE_HOLE = Size(256 * 2**20)
"""RK3588 keeps 0xf000_0000 to 0xffff_ffff for devices: below 4 GiB there are 3.75 GiB of DRAM
(kernel ``rk3588-base.dtsi``: every register block lies there)."""

LEFT_BELOW = Size(512 * 2**20)
"""Below the limit this much must stay for everything else: kernel, DMA zone, firmware."""


class MemoryFault(InputError):
    """A memory map that cannot be; ``path`` leads to the value in the board file."""

    def __init__(self, path: tuple[str | int, ...], message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {message}", hint=hint)
        self.path = path


def cma_argument(cma: Cma) -> str:
    """The kernel's ``cma=`` value: ``512M@0-4G``.

    Syntax ``nn[MG]@[start[MG][-end[MG]]]`` (kernel ``Documentation/admin-guide/kernel-parameters.txt``).
    It overrides a ``linux,cma`` node (kernel ``kernel/dma/contiguous.c``, ``rmem_cma_setup``).
    """
    return f"{_kernel_size(cma.size)}@0-{_kernel_size(cma.below)}"


def _kernel_size(size: int) -> str:
    for unit, factor in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(int(size))


def faults(memory: Memory) -> list[MemoryFault]:
    """Everything wrong with a board's memory."""
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
    """Bytes of DRAM with addresses below ``limit``, on a board whose DRAM begins at 0."""
    hole = DEVICE_HOLE if limit >= LOW_LIMIT else max(0, limit - (LOW_LIMIT - DEVICE_HOLE))
    return Size(min(memory.dram, limit - hole))


@dataclass(frozen=True, slots=True)
class Reserved:
    """What the kernel says it reserved: bytes, and the physical address where they begin."""

    size: Size
    base: int

    @property
    def end(self) -> int:
        return self.base + self.size


_RESERVED = re.compile(r"(?<!\w)cma: Reserved (\d+) MiB at (?:0x)?([0-9a-f]+)")
_TOTAL = re.compile(r"^CmaTotal: +(\d+) kB$", re.MULTILINE)


def reserved(log: str) -> Reserved | None:
    """The reservation that a kernel log reports (kernel ``mm/cma.c``: ``Reserved %ld MiB at %pa``)."""
    match = _RESERVED.search(log)
    return Reserved(Size(int(match[1]) * 2**20), int(match[2], 16)) if match else None


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
