"""Boards without a partition table, for tests: the project's own, and any that hypothesis thinks of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from boardwright.schema.board import Board, Memory, Partition, Region
from boardwright.schema.project import load_project
from boardwright.schema.units import Size

ROOT = Path(__file__).parents[2]
KIB, MIB, GIB = 2**10, 2**20, 2**30
BASE = 0x1_0000_0000
MAIX = load_project(ROOT).board("maix-iv")


def maix(**changes: Any) -> Board:
    return msgspec.structs.replace(MAIX, **changes)


def with_partition(which: str, /, **changes: Any) -> Board:
    """The Maix-IV with one partition changed."""
    changed = [msgspec.structs.replace(p, **changes) if p.name == which else p for p in MAIX.partitions]
    return maix(partitions=changed)


def with_disk(**changes: Any) -> Board:
    return maix(disk=msgspec.structs.replace(MAIX.disk, **changes))


def with_memory(**changes: Any) -> Board:
    return maix(memory=msgspec.structs.replace(MAIX.memory, **changes))


def part(name: str, size: Any, filesystem: Any, contents: Any, **more: Any) -> Partition:
    size = size if size == "rest" else Size(size)
    return Partition(name=name, size=size, filesystem=filesystem, contents=contents, **more)


FRONT = (
    part("uboot", 1536 * KIB, "raw", "uboot", at=Size(0)),
    part("uboot_bk", 1536 * KIB, "raw", "uboot-backup", at=Size(1536 * KIB)),
    part("env", MIB, "raw", "env", at=Size(3 * MIB)),
)

SIZES = st.integers(32, 64).map(lambda n: n * 512 * KIB) | st.integers(16, 2048).map(lambda n: n * MIB)
WRONG = st.integers(0, 2**36)
"""Bytes that are nearly never a multiple of anything."""


@st.composite
def partitions(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> list[Partition]:
    """The fixed front, then what boots, the root and data in any order; often right, often not."""
    tail = [
        part("dtb", draw(sizes), "raw", "dtb"),
        part("kernel", draw(sizes), "raw", "kernel"),
        part("atf", draw(sizes), "raw", "atf"),
        part("rootfs", draw(sizes), "ext4", "rootfs", grow=True),
    ]
    for name in ("optee", "logo"):
        if draw(st.booleans()):
            tail.append(part(name, draw(sizes), "raw", name))
    for number in range(draw(st.integers(0, 4))):
        mount = f"/srv/{number}" if draw(st.booleans()) else None
        tail.append(part(f"data{number}", draw(sizes), "ext4", "data", mount=mount))
    tail = draw(st.permutations(tail))
    if draw(st.booleans()):
        tail[-1] = msgspec.structs.replace(tail[-1], size="rest")
    return [*FRONT, *tail]


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Any split of any DRAM: sizes in steps that are right more often than not."""
    step = st.sampled_from([512 * MIB, 512 * MIB, 510 * MIB, MIB])
    sizes = st.builds(lambda n, unit: Size(n * unit), st.integers(0, 12), step)
    more: dict[str, Any] = {}
    for key in draw(st.sets(st.sampled_from(["linux", "cmm"]))):
        more[key] = draw(sizes)
    if draw(st.integers(0, 3)) == 0:
        more["cmm_for"] = draw(st.sampled_from(["qwen3-0.6b", "phi-3-mini", "7b-int4", "qwen3-vl-2b-int4"]))
    base = draw(st.sampled_from([0, BASE, BASE]))
    return Memory(
        dram=Size(draw(st.sampled_from([2, 4, 8, 8, 16])) * GIB),
        base=base,
        reserved=MAIX.memory.reserved if base and draw(st.booleans()) else draw(regions()),
        pools=draw(pools()) if "cmm" not in more and draw(st.booleans()) else [],
        **more,
    )


@st.composite
def regions(draw: st.DrawFn) -> list[Region]:
    addresses = st.builds(lambda n: BASE + n * MIB, st.integers(0, 2 * 1024))
    sizes = st.builds(lambda n: Size(n * MIB), st.integers(1, 64))
    return [
        Region(name=f"region{n}", address=draw(addresses), size=draw(sizes))
        for n in range(draw(st.integers(0, 2)))
    ]


@st.composite
def pools(draw: st.DrawFn) -> list[Any]:
    from boardwright.schema.board import Pool

    return [
        Pool(
            name=f"pool{n}",
            address=BASE + draw(st.integers(0, 17)) * 512 * MIB,
            size=Size(draw(st.integers(0, 12)) * 512 * MIB),
        )
        for n in range(draw(st.integers(1, 3)))
    ]


@st.composite
def boards(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> Board:
    disk = msgspec.structs.replace(
        MAIX.disk,
        size=Size(draw(st.integers(64, 40_000) | st.just(29281)) * MIB),
        device=draw(st.sampled_from(["mmcblk0", "mmcblk1", "sda"])),
    )
    return maix(disk=disk, partitions=draw(partitions(sizes)))


def kernel_partitions(value: str) -> list[tuple[str, int, int]]:
    """Name, offset and size as the kernel's ``block/partitions/cmdline.c`` makes them of the text."""
    found, position = [], 0
    _, words = value.split(":")
    for word in words.split(","):
        match = re.fullmatch(r"(\d+)([KMG]?)\((\w+)\)", word)
        assert match, word
        size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
        found.append((match[3], position, size))
        position += size
    return found


LINUX = st.integers(2, 14).map(lambda n: Size(n * 512 * MIB))
SPLITS = LINUX.map(lambda linux: Memory(dram=Size(8 * GIB), base=BASE, linux=linux))
"""Splits that can be."""
