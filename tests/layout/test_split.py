"""Memory between Linux and the NPU: two words agree, pools keep off everything, refusals say what fits."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from emmc_boards import BASE, GIB, MAIX, MIB, memories, with_memory
from hypothesis import event, given, settings
from hypothesis import strategies as st

from boardwright.errors import InputError
from boardwright.layout import split, split_rules
from boardwright.layout.models import MODELS, that_fit
from boardwright.schema.board import Cma, Memory, Pool, Region
from boardwright.schema.units import Size


def memory(**changes: Any) -> Memory:
    plain = {"linux": None, "cmm": None, "cmm_for": None} | changes
    return with_memory(**plain).memory


def gib(number: float) -> Size:
    return Size(int(number * GIB))


def said(asked: Memory) -> list[tuple[str, str, str]]:
    return [
        (".".join(map(str, fault.path)), fault.message.split(": ", 1)[1], fault.hint or "")
        for fault in split_rules.faults(asked)
    ]


@pytest.mark.parametrize(
    ("linux", "cmm", "mem", "cmmpool"),
    [
        (2, 6, "2048M", "anonymous,0,0x180000000,6144M"),
        (3, 5, "3072M", "anonymous,0,0x1C0000000,5120M"),
        (3.5, 4.5, "3584M", "anonymous,0,0x1E0000000,4608M"),
        (4, 4, "4096M", "anonymous,0,0x200000000,4096M"),
        (5, 3, "5120M", "anonymous,0,0x240000000,3072M"),
    ],
)
def test_the_splits_in_use_have_the_words_in_use(linux: float, cmm: float, mem: str, cmmpool: str) -> None:
    for asked in (
        memory(linux=gib(linux), cmm=gib(cmm)),
        memory(linux=gib(linux)),
        memory(cmm=gib(cmm)),
    ):
        found = split_rules.resolve(asked)
        assert found is not None
        assert (found.mem, found.cmmpool) == (mem, cmmpool)


def test_the_debug_build_leaves_the_top_unused_and_that_is_allowed() -> None:
    """mem=3072M with a pool of 4 GiB behind it: a build of the SDK has that."""
    found = split_rules.resolve(memory(linux=gib(3), cmm=gib(4)))
    assert found is not None
    assert found.cmmpool == "anonymous,0,0x1C0000000,4096M"
    assert found.pools[0].end == found.end - GIB


@pytest.mark.parametrize(
    ("model", "linux", "cmm"),
    [
        ("qwen3-0.6b", 6, 2),
        ("minicpm5-1b", 5.5, 2.5),
        ("qwen3-1.7b", 4, 4),
        ("qwen3-vl-2b-int4", 3.5, 4.5),
        ("phi-3-mini", 3, 5),
        ("7b-int4", 2, 6),
    ],
)
def test_a_model_gets_the_smallest_pool_that_is_enough(model: str, linux: float, cmm: float) -> None:
    found = split_rules.resolve(memory(cmm_for=model))
    assert found is not None
    assert (found.linux, found.cmm) == (gib(linux), gib(cmm))


def test_a_board_without_a_split_has_none() -> None:
    assert split.of(Memory(dram=gib(8))) is None
    assert split_rules.resolve(Memory(dram=gib(8))) is None


@settings(max_examples=500)
@given(asked=memories())
def test_no_split_that_passes_overlaps_touches_or_leaves(asked: Memory) -> None:
    if split_rules.faults(asked):
        event("refused")
        return
    found = split.of(asked)
    if found is None:
        event("none")
        return
    event("passes")
    end = asked.base + asked.dram
    taken = [(asked.base, asked.base + found.linux), *((p.offset, p.end) for p in found.pools)]
    taken.sort()
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(taken))
    assert found.linux >= GIB
    assert taken[-1][1] <= end
    for pool in found.pools:
        assert pool.size > 0
        assert pool.offset % split_rules.ALIGNMENT == pool.size % split_rules.ALIGNMENT == 0
        for region in asked.reserved:
            assert pool.end <= region.address or region.address + region.size <= pool.offset
    if asked.cmm_for:
        assert found.cmm >= MODELS[asked.cmm_for].need
    assert split.parse_mem(found.mem) == found.linux
    assert split.parse_cmmpool(found.cmmpool) == found.pools


@given(asked=memories())
def test_every_refusal_is_at_a_value_and_every_alternative_would_pass(asked: Memory) -> None:
    need = MODELS[asked.cmm_for].need if asked.cmm_for else 0
    for fault in split_rules.faults(asked):
        assert fault.path[0] == "memory"
        assert any(character.isdigit() for character in fault.message)
        assert fault.hint or not split_rules.alternatives(asked, need), fault.message
    for other in split_rules.alternatives(asked, need):
        changed = msgspec.structs.replace(
            asked, linux=Size(other.linux), cmm=other.cmm, pools=[], reserved=asked.reserved
        )
        wrong = [f for f in split_rules.faults(changed) if f.path[1] not in ("reserved", "base")]
        assert wrong == []


@pytest.mark.parametrize(
    ("asked", "where", "words", "hint"),
    [
        (
            memory(linux=gib(6), cmm=gib(4)),
            "memory.cmm",
            "(0x280000000 to 0x380000000) leaves the DRAM, 0x100000000 to 0x300000000, by 2GiB",
            "linux 6GiB, cmm 2GiB",
        ),
        (
            memory(linux=gib(0.5)),
            "memory.linux",
            "expected 1GiB of Linux at least, found 512MiB",
            "linux 1GiB, cmm 7GiB",
        ),
        (
            memory(cmm=gib(7.5)),
            "memory.cmm",
            "expected 1GiB of Linux at least, found 512MiB",
            "linux 1GiB, cmm 7GiB",
        ),
        (
            memory(cmm=gib(9)),
            "memory.cmm",
            "expected 1GiB of Linux at least, found 0B: 9GiB of CMM memory in 8GiB leave no more",
            "linux 1GiB, cmm 7GiB",
        ),
        (
            memory(linux=gib(9), cmm=gib(1)),
            "memory.linux",
            "mem=9216M is 9GiB of Linux in 8GiB of DRAM",
            "linux 7680MiB",
        ),
        (
            memory(base=BASE + 1, linux=gib(3)),
            "memory.base",
            "expected a multiple of 2MiB, found 0x100000001",
            "write 0x100000000",
        ),
        (
            memory(dram=Size(8 * GIB + 1), linux=gib(3)),
            "memory.dram",
            "expected a multiple of 2MiB, more than 0, found 8589934593B",
            "what the board has",
        ),
        (
            memory(
                linux=gib(3),
                reserved=[
                    Region(name="a", address=0x1D0000000, size=Size(MIB)),
                    Region(name="b", address=0x1E0000000, size=Size(MIB)),
                ],
            ),
            "memory.linux",
            "touches the reserved a (0x1D0000000 to 0x1D0100000), b (0x1E0000000 to 0x1E0100000)",
            "these fit",
        ),
        (memory(linux=gib(8)), "memory.linux", "expected a pool of 2MiB at least, found 0B", "linux 7680MiB"),
        (
            memory(linux=Size(3 * GIB + MIB)),
            "memory.linux",
            "expected a multiple of 2MiB, more than 0, found 3073MiB",
            "linux 3GiB, cmm 5GiB",
        ),
        (
            memory(cmm=Size(0)),
            "memory.cmm",
            "expected a multiple of 2MiB, more than 0, found 0B",
            "these fit",
        ),
        (
            memory(linux=gib(4), cmm=gib(4), cmm_for="phi-3-mini"),
            "memory.cmm-for",
            "needs 4989MiB of CMM memory (3624MiB of files, 30 % more, and 277MiB in use before)",
            "linux 3GiB, cmm 5GiB; linux 2560MiB, cmm 5632MiB; linux 2GiB, cmm 6GiB",
        ),
        (
            memory(linux=gib(4), cmm=gib(4), cmm_for="phi-3-mini"),
            "memory.cmm-for",
            "found 4GiB",
            "into 4GiB fit qwen3-0.6b, minicpm5-1b, qwen3-1.7b",
        ),
        (
            memory(linux=gib(4), cmm=gib(4), cmm_for="qwen3-vl-2b-int4"),
            "memory.cmm-for",
            "needs 4608MiB of CMM memory (4608MiB were seen to be enough), found 4GiB",
            "linux 3584MiB, cmm 4608MiB",
        ),
        (
            memory(dram=gib(4), linux=gib(2), cmm_for="phi-3-mini"),
            "memory.cmm-for",
            "found 2GiB",
            "no split of 4GiB has that much",
        ),
        (memory(cmm_for="phi3-mini"), "memory.cmm-for", "found 'phi3-mini'", "did you mean 'phi-3-mini'?"),
        (memory(cmm_for="zzz"), "memory.cmm-for", "found 'zzz'", "known: qwen3-0.6b"),
        (
            memory(linux=gib(3), cmm=gib(1), pools=[Pool(address=0x1C0000000, size=gib(1))]),
            "memory.cmm",
            "expected cmm or pools, found both",
            "",
        ),
        (
            memory(linux=gib(4), pools=[Pool(address=0x1C0000000, size=gib(1))]),
            "memory.pools.0",
            "overlaps Linux by 1GiB: mem=4096M ends at 0x200000000",
            "linux 4GiB, cmm 4GiB",
        ),
        (
            memory(
                linux=gib(2),
                pools=[
                    Pool(address=0x180000000, size=gib(2)),
                    Pool(name="b", address=0x1C0000000, size=gib(1)),
                ],
            ),
            "memory.pools.1",
            "b (0x1C0000000 to 0x200000000) overlaps pool anonymous (0x180000000 to 0x200000000)",
            "these fit",
        ),
        (
            memory(linux=gib(2), pools=[Pool(address=0x180000000 + MIB, size=gib(1))]),
            "memory.pools.0.address",
            "expected a multiple of 2MiB, found 0x180100000",
            "",
        ),
        (
            memory(linux=gib(3), reserved=[Region(name="late", address=0x1D0000000, size=Size(MIB))]),
            "memory.linux",
            "touches the reserved late (0x1D0000000 to 0x1D0100000)",
            "linux 3584MiB, cmm 4608MiB",
        ),
        (
            memory(linux=gib(3), reserved=[Region(name="low", address=0xF0000000, size=Size(MIB))]),
            "memory.reserved.0.address",
            "low (0xF0000000 to 0xF0100000) is not in the DRAM, 0x100000000 to 0x300000000",
            "",
        ),
        (
            memory(linux=gib(3), reserved=[Region(name="a", address=BASE, size=Size(0))]),
            "memory.reserved.0.size",
            "region 'a' has 0 bytes",
            "",
        ),
        (
            memory(
                linux=gib(3),
                reserved=[
                    Region(name="a", address=BASE, size=Size(MIB)),
                    Region(name="b", address=BASE, size=Size(MIB)),
                ],
            ),
            "memory.reserved.1.address",
            "overlaps a (0x100000000 to 0x100100000)",
            "",
        ),
        (
            memory(linux=gib(3), cma=Cma(size=Size(64 * MIB))),
            "memory.base",
            "expected 0 with memory.cma, whose rules assume it, found 0x100000000",
            "",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_is_refused(asked: Memory, where: str, words: str, hint: str) -> None:
    assert any(path == where and words in message and hint in help for path, message, help in said(asked)), (
        said(asked)
    )


def test_linux_too_small_or_too_large_is_said_once_and_not_for_every_region_it_uncovers() -> None:
    assert len(said(memory(linux=gib(0.5)))) == 1
    assert len(said(memory(linux=gib(9), cmm=gib(1)))) == 1


def test_the_default_of_the_public_u_boot_never_goes_with_the_shipped_pool() -> None:
    """mem=6144M is compiled into the public tree; the shipped pool begins at 0x200000000."""
    pools = split.parse_cmmpool("anonymous,0,0x200000000,4096M")
    found = split.Split(BASE, 8 * GIB, split.parse_mem("6144M"), pools)
    (words,) = split_rules.judge(found)
    assert "overlaps Linux by 2GiB: mem=6144M ends at 0x280000000" in words


def test_a_split_found_on_a_board_is_judged_with_its_model() -> None:
    found = split.Split(BASE, 8 * GIB, 512 * MIB, (split.Pool("anonymous", BASE + GIB, GIB),))
    assert split_rules.judge(found, "phi-3-mini") == [
        "mem=512M: expected 1GiB at least",
        "phi-3-mini needs 4989MiB of CMM memory, found 1GiB",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "anonymous",
        "anonymous,0,0x1C0000000",
        "anonymous,0,1C0000000,5120M",
        "anonymous,0,0x1C0000000,5120",
        "a,0,0x1,1M:",
        "a,0,0x1,1M,2",
        "a,-1,0x1,1M",
    ],
)
def test_a_pool_that_the_driver_could_not_read_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="cmmpool: pool"):
        split.parse_cmmpool(value)


@pytest.mark.parametrize("value", ["", "M", "3072", "3072MB", "0x100M", "-1M"])
def test_a_mem_that_is_no_size_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="mem: expected"):
        split.parse_mem(value)


def test_several_pools_are_read_and_written() -> None:
    text = "a,0,0x148000000,3072M:b,1,0x280000000,512K"
    pools = split.parse_cmmpool(text)
    assert [(p.name, p.flag, p.offset, p.size) for p in pools] == [
        ("a", 0, 0x148000000, 3 * GIB),
        ("b", 1, 0x280000000, 512 * 1024),
    ]
    assert split.Split(BASE, 8 * GIB, GIB, pools).cmmpool == text


def test_what_fits_into_a_pool_is_what_needs_no_more() -> None:
    assert that_fit(4 * GIB) == ["qwen3-0.6b", "minicpm5-1b", "qwen3-1.7b"]
    assert that_fit(6 * GIB) == list(MODELS)


@given(files=st.integers(1, 2**34))
def test_a_need_is_never_less_than_the_files_and_a_third(files: int) -> None:
    from boardwright.layout.models import USED_BEFORE, Model

    need = Model("m", Size(files), "source", "s").need
    assert need * 10 >= files * 13 + USED_BEFORE * 10
    assert need % MIB == 0


def test_the_board_files_own_split_is_the_one_its_model_asks_for() -> None:
    asked = MAIX.memory
    alone = msgspec.structs.replace(asked, linux=None, cmm=None)
    assert split.of(alone) == split_rules.resolve(asked)
