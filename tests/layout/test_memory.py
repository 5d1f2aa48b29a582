"""The contiguous memory area is asked for in the kernel's words, fits, and is found again."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.layout.memory import (
    CMA_ALIGNMENT,
    LEFT_BELOW,
    Reserved,
    available_below,
    cma_argument,
    cma_total,
    drawing,
    faults,
    reserved,
)
from boardwright.schema.board import Cma, Memory
from boardwright.schema.units import Size

KIB, MIB, GIB = 2**10, 2**20, 2**30

SIZES = st.integers(0, 64).map(lambda n: n * CMA_ALIGNMENT)
LIMITS = st.integers(1, 16 * 1024).map(lambda n: n * MIB)
DRAM = st.sampled_from([2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB, 32 * GIB])


def memory(dram: int = 8 * GIB, size: int = 512 * MIB, below: int = 4 * GIB) -> Memory:
    return Memory(dram=Size(dram), cma=Cma(size=Size(size), below=Size(below)))


def memparse(text: str) -> tuple[int, str]:
    """A number as the kernel reads it (``lib/cmdline.c``), and what follows it."""
    match = re.match(r"(0x[0-9a-f]+|\d+)([KMGT]?)(.*)", text)
    assert match, text
    return int(match[1], 0) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2]], match[3]


def early_cma(text: str) -> tuple[int, int, int]:
    """Size, base and limit as ``early_cma`` of the kernel's ``kernel/dma/contiguous.c`` takes them."""
    size, rest = memparse(text)
    if not rest.startswith("@"):
        return size, 0, 0
    base, rest = memparse(rest[1:])
    if not rest.startswith("-"):
        return size, base, base + size
    limit, rest = memparse(rest[1:])
    assert rest == ""
    return size, base, limit


@pytest.mark.parametrize(
    ("size", "below", "expected"),
    [
        (512 * MIB, 4 * GIB, "512M@0-4G"),
        (1 * GIB, 4 * GIB, "1G@0-4G"),
        (256 * MIB, 3 * GIB + 512 * MIB, "256M@0-3584M"),
        (4 * MIB, 1 * GIB + 4 * KIB, "4M@0-1048580K"),
        (4 * MIB, 1 * GIB + 1, "4M@0-1073741825"),
    ],
)
def test_the_argument_is_what_one_would_write(size: int, below: int, expected: str) -> None:
    assert cma_argument(Cma(size=Size(size), below=Size(below))) == expected


@given(size=SIZES, below=LIMITS)
def test_the_kernel_reads_the_argument_as_it_was_meant(size: int, below: int) -> None:
    assert early_cma(cma_argument(Cma(size=Size(size), below=Size(below)))) == (size, 0, below)


@given(dram=DRAM, size=SIZES, below=LIMITS)
def test_what_is_accepted_fits_and_never_means_a_fixed_address(dram: int, size: int, below: int) -> None:
    asked = memory(dram, size, below)
    if faults(asked):
        return
    assert 0 < size <= available_below(asked, below) - LEFT_BELOW
    parsed, base, limit = early_cma(cma_argument(Cma(size=Size(size), below=Size(below))))
    assert base + parsed != limit, "the kernel would take this for a fixed address"


@given(dram=DRAM, limits=st.tuples(LIMITS, LIMITS))
def test_more_room_is_never_less_memory(dram: int, limits: tuple[int, int]) -> None:
    low, high = sorted(limits)
    asked = memory(dram)
    assert available_below(asked, low) <= available_below(asked, high) <= min(high, dram)


@pytest.mark.parametrize(
    ("dram", "limit", "expected"),
    [
        (8 * GIB, 4 * GIB, 3840 * MIB),
        (4 * GIB, 4 * GIB, 3840 * MIB),
        (4 * GIB, 8 * GIB, 3840 * MIB),
        (8 * GIB, 8 * GIB, 7936 * MIB),
        (2 * GIB, 4 * GIB, 2 * GIB),
        (8 * GIB, 3840 * MIB, 3840 * MIB),
        (8 * GIB, 3900 * MIB, 3840 * MIB),
        (8 * GIB, 1 * GIB, 1 * GIB),
    ],
)
def test_the_device_window_below_4_gib_is_no_memory(dram: int, limit: int, expected: int) -> None:
    assert available_below(memory(dram), limit) == expected


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (memory(size=0), "memory.cma.size: expected a multiple of 4MiB, found 0B"),
        (memory(size=510 * MIB), "expected a multiple of 4MiB, found 510MiB"),
        (memory(size=4 * GIB), "4GiB do not fit below 4GiB: at most 3328MiB there"),
        (memory(size=3332 * MIB), "at most 3328MiB there"),
        (memory(dram=4 * GIB, size=3332 * MIB, below=8 * GIB), "at most 3328MiB there"),
        (memory(dram=1 * GIB, size=1 * GIB), "1GiB do not fit below 4GiB: at most 512MiB there"),
        (memory(size=4 * MIB, below=256 * MIB), "4MiB do not fit below 256MiB: at most 0B there"),
    ],
)
def test_an_area_that_cannot_be_is_refused_in_words(asked: Memory, words: str) -> None:
    found = faults(asked)
    assert len(found) == 1
    assert found[0].path == ("memory", "cma", "size")
    assert words in found[0].message


def test_the_largest_area_that_leaves_enough_is_accepted() -> None:
    assert faults(memory(size=3328 * MIB)) == []


def test_a_board_without_an_area_has_no_fault() -> None:
    assert faults(Memory(dram=Size(GIB))) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[    0.000000] cma: Reserved 512 MiB at 0x00000000c0000000 on node -1", (512, 0xC000_0000)),
        ("[    0.000000] cma: Reserved 512 MiB at 0x00000000d0000000", (512, 0xD000_0000)),
        ("cma: Reserved 64 MiB at 00000000fc000000", (64, 0xFC00_0000)),
        (
            "Reserved memory: created CMA memory pool at 0x00000000c0000000, size 512 MiB",
            (512, 0xC000_0000),
        ),
    ],
    ids=["6.12", "7.3", "without 0x", "device tree"],
)
def test_the_kernels_own_line_is_read(line: str, expected: tuple[int, int]) -> None:
    found = reserved(f"[    0.000000] Booting Linux\n{line}\n[    0.000000] Zone ranges:\n")
    assert found == Reserved(Size(expected[0] * MIB), expected[1])


@pytest.mark.parametrize(
    "line",
    [
        "cma: Failed to reserve 512 MiB",
        "cma: Reserved 512 MiB in 2 ranges",
        "hugetlb_cma: Reserved 512 MiB at 0x1000",
        "Reserved memory: bypass linux,cma node, using cmdline CMA params instead",
        "",
    ],
)
def test_other_lines_are_no_reservation(line: str) -> None:
    assert reserved(line) is None


def test_the_end_of_a_reservation_is_the_first_address_after_it() -> None:
    assert Reserved(Size(512 * MIB), 0xE000_0000).end == 2**32


def test_cma_total_of_meminfo() -> None:
    meminfo = "MemTotal:        8000000 kB\nCmaTotal:         524288 kB\nCmaFree:          510000 kB\n"
    assert cma_total(meminfo) == 512 * MIB
    assert cma_total("MemTotal:        8000000 kB\n") is None


def test_the_drawing_says_what_lies_below_4_gib_and_what_is_asked_for() -> None:
    text = drawing(memory())
    assert "8GiB of DRAM, 3840MiB of it below 4GiB" in text
    assert "cma=512M@0-4G" in text
