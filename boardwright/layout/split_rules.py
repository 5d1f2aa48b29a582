"""When a split of memory between Linux and the NPU can be, and which others could be instead."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from boardwright.layout.extents import Extent, KeyPath, MemoryFault
from boardwright.layout.models import MODELS, STEP, that_fit
from boardwright.layout.split import Pool, Split
from boardwright.layout.split import of as split_of
from boardwright.schema.suggest import nearest
from boardwright.schema.units import Size

if TYPE_CHECKING:
    from boardwright.schema.board import Memory

MIB, GIB = 2**20, 2**30
ALIGNMENT = Size(2 * MIB)
"""A block of the kernel's linear map with 4 KiB pages; shipped values are multiples of 64 MiB."""
LINUX_LEAST = Size(GIB)
"""The regions that firmware and the DSPs own reach up to 1 GiB from the start of DRAM (SDK,
AX650_pipro_box.dts), so a pool that begins below lies on them; no shipped script gives Linux less."""


def resolve(memory: Memory) -> Split | None:
    """The split of a board. Raises the first :class:`MemoryFault` there is."""
    for fault in faults(memory):
        raise fault
    return split_of(memory)


def faults(memory: Memory) -> list[MemoryFault]:
    """Everything wrong with a board's split and its reserved regions."""
    found = [*_region_faults(memory), *_choice_faults(memory)]
    if found or (split := split_of(memory)) is None:
        return found
    found = list(_number_faults(memory)) or [*_place_faults(memory, split)]
    return found or list(_model_faults(memory, split))


def judge(split: Split, model: str | None = None) -> list[str]:
    """What is wrong with a split found elsewhere (a command line and a script), in words."""
    found = [fault.message for fault in _place_faults(None, split)]
    if split.linux < LINUX_LEAST:
        found.insert(0, f"mem={split.mem}: expected {LINUX_LEAST} at least")
    if model is not None and split.cmm < MODELS[model].need:
        found.append(f"{model} needs {MODELS[model].need} of CMM memory, found {split.cmm}")
    return found


def alternatives(memory: Memory, need: int = 0) -> list[Split]:
    """Splits in steps of 512 MiB that pass every rule and have ``need`` bytes of CMM, most Linux first."""
    base, dram = memory.base, int(memory.dram)
    reserved = tuple(Extent(r.name, r.address, int(r.size)) for r in memory.reserved)
    found = []
    for linux in range(dram - STEP, LINUX_LEAST - 1, -STEP):
        pool = Pool("anonymous", base + linux, dram - linux)
        split = Split(base, dram, linux, (pool,), reserved)
        if split.cmm >= need and not list(_place_faults(None, split)):
            found.append(split)
    return found


def _fitting(memory: Memory, near: int | None = None) -> str | None:
    """The alternatives as a hint: the four nearest to ``near`` bytes of Linux, or those with most Linux."""
    model = MODELS.get(memory.cmm_for or "")
    found = alternatives(memory, model.need if model else 0)
    if near is not None:
        found = sorted(found, key=lambda split: abs(split.linux - near))
    if not found:
        return None
    return "these fit: " + "; ".join(str(split) for split in found[:4])


def _region_faults(memory: Memory) -> Iterator[MemoryFault]:
    regions = [Extent(r.name, r.address, int(r.size)) for r in memory.reserved]
    end = memory.base + memory.dram
    for index, region in enumerate(regions):
        path: KeyPath = ("memory", "reserved", index)
        if region.size == 0:
            yield MemoryFault(
                (*path, "size"),
                f"region {region.name!r} has 0 bytes",
                hint="give it its size, or leave it out",
            )
        elif region.offset < memory.base or region.end > end:
            yield MemoryFault(
                (*path, "address"),
                f"{_range(region)} is not in the DRAM, 0x{memory.base:X} to 0x{end:X}",
                hint="correct the address, or memory.base and memory.dram",
            )
        for other in regions[:index]:
            if region.overlaps(other):
                yield MemoryFault(
                    (*path, "address"),
                    f"{_range(region)} overlaps {_range(other)}",
                    hint="correct one of the addresses",
                )


def _choice_faults(memory: Memory) -> Iterator[MemoryFault]:
    if memory.cmm is not None and memory.pools:
        yield MemoryFault(
            ("memory", "cmm"),
            f"expected cmm or pools, found both: cmm is {memory.cmm}",
            hint="leave cmm out: pools say it",
        )
    if memory.cmm_for is not None and memory.cmm_for not in MODELS:
        yield MemoryFault(
            ("memory", "cmm-for"),
            f"expected a model whose need is known, found {memory.cmm_for!r}",
            hint=nearest(memory.cmm_for, MODELS) or f"known: {', '.join(MODELS)}; or give cmm as a size",
        )
    if memory.cma is not None and memory.base:
        yield MemoryFault(
            ("memory", "base"),
            f"expected 0 with memory.cma, whose rules assume it, found 0x{memory.base:X}",
            hint="leave memory.cma out: such a board has CMM pools",
        )


def _number_faults(memory: Memory) -> Iterator[MemoryFault]:
    if memory.base % ALIGNMENT:
        yield MemoryFault(
            ("memory", "base"),
            f"expected a multiple of {ALIGNMENT}, found 0x{memory.base:X}",
            hint=f"write 0x{memory.base // ALIGNMENT * ALIGNMENT:X}: pools count from it",
        )
    sizes: list[tuple[KeyPath, int]] = [(("memory", "dram"), int(memory.dram))]
    if memory.linux is not None:
        sizes.append((("memory", "linux"), int(memory.linux)))
    if memory.cmm is not None:
        sizes.append((("memory", "cmm"), int(memory.cmm)))
    for index, pool in enumerate(memory.pools):
        sizes.append((("memory", "pools", index, "size"), int(pool.size)))
        if pool.address % ALIGNMENT:
            yield MemoryFault(
                ("memory", "pools", index, "address"),
                f"expected a multiple of {ALIGNMENT}, found 0x{pool.address:X}",
                hint=f"write 0x{pool.address // ALIGNMENT * ALIGNMENT:X}",
            )
    for path, size in sizes:
        if size <= 0 or size % ALIGNMENT:
            yield MemoryFault(
                path,
                f"expected a multiple of {ALIGNMENT}, more than 0, found {Size(size)}",
                hint="what the board has"
                if path[-1] == "dram"
                else _fitting(memory, size if path[-1] == "linux" else None),
            )


def _place_faults(memory: Memory | None, split: Split) -> Iterator[MemoryFault]:
    """Pools against DRAM, Linux, reserved regions and each other; ``memory`` is only for paths and hints."""
    hint = _fitting(memory, split.linux) if memory else None
    if memory is not None and split.linux < LINUX_LEAST:
        own = memory.linux is not None
        left = "" if own else f": {split.cmm} of CMM memory in {Size(split.dram)} leave no more"
        yield MemoryFault(
            ("memory", "linux") if own else _cmm_path(memory, 0),
            f"expected {LINUX_LEAST} of Linux at least, found {Size(max(0, split.linux))}{left}",
            hint=hint,
        )
        return  # what lies there instead needs no list
    if split.linux > split.dram:
        yield MemoryFault(
            ("memory", "linux"),
            f"mem={split.mem} is {Size(split.linux)} of Linux in {Size(split.dram)} of DRAM",
            hint=hint,
        )
        if memory is not None:
            return  # a pool behind it has no place either
    linux = Extent("Linux", split.base, split.linux)
    for index, pool in enumerate(split.pools):
        path = _cmm_path(memory, index)
        if pool.size <= 0:
            yield MemoryFault(
                path, f"expected a pool of {ALIGNMENT} at least, found {Size(max(0, pool.size))}", hint=hint
            )
            continue
        if pool.end > split.end or pool.offset < split.base:
            yield MemoryFault(
                path,
                f"pool {_range(pool)} leaves the DRAM, 0x{split.base:X} to 0x{split.end:X}, by "
                f"{Size(max(pool.end - split.end, split.base - pool.offset))}",
                hint=hint,
            )
        if pool.overlaps(linux):
            over = min(pool.end, linux.end) - max(pool.offset, linux.offset)
            yield MemoryFault(
                path,
                f"pool {_range(pool)} overlaps Linux by {Size(over)}: mem={split.mem} ends at "
                f"0x{linux.end:X}",
                hint=hint,
            )
        if touched := [_range(region) for region in split.reserved if pool.overlaps(region)]:
            yield MemoryFault(
                path, f"pool {_range(pool)} touches the reserved {', '.join(touched)}", hint=hint
            )
    for (_, first), (index, second) in itertools.combinations(enumerate(split.pools), 2):
        if first.size > 0 and second.size > 0 and first.overlaps(second):
            yield MemoryFault(
                _cmm_path(memory, index), f"pool {_range(second)} overlaps pool {_range(first)}", hint=hint
            )


def _model_faults(memory: Memory, split: Split) -> Iterator[MemoryFault]:
    model = MODELS.get(memory.cmm_for or "")
    if model is None or split.cmm >= model.need:
        return
    smaller = that_fit(split.cmm)
    hint = _fitting(memory) or (
        f"no split of {memory.dram} has that much; load its layers one at a time (ax-llm's dynamic load)"
    )
    if smaller:
        hint += f"; into {split.cmm} fit {', '.join(smaller)}"
    yield MemoryFault(
        ("memory", "cmm-for"),
        f"{model.name} needs {model.need} of CMM memory ({model.words()}), found {split.cmm}",
        hint=hint,
    )


def _cmm_path(memory: Memory | None, index: int) -> KeyPath:
    """Which value of the file a pool comes from."""
    if memory is None:
        return ("cmmpool", index)
    if memory.pools:
        return ("memory", "pools", index)
    for name, value in (("cmm", memory.cmm), ("linux", memory.linux)):
        if value is not None:
            return ("memory", name)
    return ("memory", "cmm-for")


def _range(extent: Extent) -> str:
    return f"{extent.name} (0x{extent.offset:X} to 0x{extent.end:X})"
