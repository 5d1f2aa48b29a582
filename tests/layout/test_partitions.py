"""A disk layout keeps every rule, or the value that breaks one is named."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import ExitStatus
from boardwright.layout.description import label
from boardwright.layout.drawing import draw
from boardwright.layout.identifiers import fat_serial, identifier
from boardwright.layout.partitions import (
    GPT_HEAD,
    GPT_TAIL,
    SECTOR,
    LayoutError,
    Table,
    faults,
    gpt_extents,
    key,
    resolve,
)
from boardwright.schema.board import Disk, Hole, Partition
from boardwright.schema.units import Size

KIB, MIB, GIB = 2**10, 2**20, 2**30


def hole(name: str = "idbloader", offset: int = 32 * KIB, size: int = 8160 * KIB) -> Hole:
    return Hole(name=name, offset=Size(offset), size=Size(size), contents=f"{name}.img")


def disk(**changes: Any) -> Disk:
    usual = Disk(size=Size(2 * GIB), holes=[hole(), hole("u-boot", 8 * MIB, 8 * MIB)])
    return msgspec.structs.replace(usual, **changes)


def boot(**changes: Any) -> Partition:
    usual = Partition(name="boot", size=Size(256 * MIB), filesystem="vfat", contents="boot")
    return msgspec.structs.replace(usual, **changes)


def root(**changes: Any) -> Partition:
    usual = Partition(name="root", size="rest", filesystem="ext4", contents="rootfs", grow=True)
    return msgspec.structs.replace(usual, **changes)


def only_fault(*partitions: Partition, of: Disk | None = None) -> tuple[str, str]:
    """Where the one fault is, and what it says."""
    found = faults(of or disk(), partitions or (boot(), root()))
    assert len(found) == 1, [str(error) for error in found]
    return key(found[0].path), found[0].message


# --- a layout that is right ---------------------------------------------------------------------------


def test_rock5b_is_placed_behind_its_loader() -> None:
    table = resolve(disk(), [boot(), root()])
    first, second = table.partitions
    assert (first.first_sector, first.sectors) == (32768, 524288)
    assert (second.offset, second.size) == (272 * MIB, 1775 * MIB)
    assert table.holding("rootfs") is second


def test_the_boot_partition_is_what_u_boot_looks_for() -> None:
    first, second = resolve(disk(), [boot(), root()]).partitions
    assert (first.type_guid, first.attributes) == ("bc13c2ff-59e6-4262-a352-b275fd6f7172", (2,))
    assert (second.type_guid, second.attributes) == ("b921b045-1df0-41c3-af44-4c6f280d3fae", (59,))


def test_two_roots_are_allowed() -> None:
    slots = [boot(), root(name="a", size=Size(512 * MIB), grow=False), root(name="b")]
    assert [p.number for p in resolve(disk(), slots).partitions] == [1, 2, 3]


@st.composite
def layouts(draw_: st.DrawFn) -> tuple[Disk, list[Partition]]:
    """Layouts that fit: holes in the first 16 MiB, two to six partitions, the last may take the rest."""
    align = draw_(st.sampled_from([4 * KIB, MIB, 4 * MIB]))
    ends = sorted(draw_(st.sets(st.integers(GPT_HEAD // SECTOR, 16 * MIB // SECTOR), max_size=6)))
    holes = [
        hole(f"hole{i}", a * SECTOR, (b - a) * SECTOR)
        for i, (a, b) in enumerate(zip(ends[::2], ends[1::2], strict=False))
    ]
    steps = st.integers(0, 64 * MIB // align)
    sizes = [64 * MIB + draw_(steps) * align for _ in range(draw_(st.integers(1, 5)))]
    slots = [root(name=f"root{i}", size=Size(size), grow=False) for i, size in enumerate(sizes)]
    if draw_(st.booleans()):
        slots.append(root())
    first = 16 * MIB + draw_(st.integers(0, 8)) * align
    need = first + 256 * MIB + sum(sizes) + 64 * MIB
    size = -(-need // align) * align + draw_(steps) * align
    return disk(size=Size(size), first_partition=Size(first), align=Size(align), holes=holes), [
        boot(),
        *slots,
    ]


@given(layouts())
def test_extents_never_overlap_and_are_aligned(layout: tuple[Disk, list[Partition]]) -> None:
    wanted, partitions = layout
    table = resolve(wanted, partitions)
    extents = sorted([*gpt_extents(table.size), *table.holes, *table.partitions], key=lambda e: e.offset)
    assert all(one.end <= other.offset for one, other in itertools.pairwise(extents))
    assert extents[-1].end == table.size
    assert all(p.offset % wanted.align == 0 == p.size % wanted.align for p in table.partitions)
    assert all(e.offset == e.first_sector * SECTOR and e.size == e.sectors * SECTOR for e in extents)


@given(layouts())
def test_sizes_are_as_asked_for_and_the_rest_is_all_there_is(layout: tuple[Disk, list[Partition]]) -> None:
    wanted, partitions = layout
    table = resolve(wanted, partitions)
    for asked, placed in zip(partitions, table.partitions, strict=True):
        if asked.size == "rest":
            assert 0 <= table.size - GPT_TAIL - placed.end < wanted.align
        else:
            assert placed.size == asked.size
    gaps = [b.offset - a.end for a, b in zip(table.partitions, table.partitions[1:], strict=False)]
    assert not any(gaps)


@given(layouts())
def test_the_drawing_accounts_for_every_byte(layout: tuple[Disk, list[Partition]]) -> None:
    rows = [line.split() for line in draw(resolve(*layout)).splitlines()[1:]]
    starts = [int(row[0]) for row in rows]
    sizes = [Size.parse(row[2]) // SECTOR for row in rows]
    assert [a + b for a, b in zip(starts, sizes, strict=True)] == [*starts[1:], layout[0].size // SECTOR]


@given(layouts(), st.data())
def test_a_hole_put_anywhere_is_refused_or_overlaps_nothing(
    layout: tuple[Disk, list[Partition]], data: st.DataObject
) -> None:
    wanted, partitions = layout
    sector = data.draw(st.integers(0, wanted.size // SECTOR))
    count = data.draw(st.integers(1, 64 * MIB // SECTOR))
    more = msgspec.structs.replace(
        wanted, holes=[*wanted.holes, hole("new", sector * SECTOR, count * SECTOR)]
    )
    table = resolve(wanted, partitions)
    start, end = sector * SECTOR, (sector + count) * SECTOR
    taken = [*gpt_extents(table.size), *table.holes, *table.partitions]
    free = end <= table.size and all(end <= e.offset or e.end <= start for e in taken)
    assert (not faults(more, partitions)) == free


# --- a layout that is wrong: each rule, the place, the words --------------------------------------------


def test_a_hole_over_another_hole() -> None:
    where, said = only_fault(of=disk(holes=[hole(), hole("u-boot", 8 * MIB - 512, 8 * MIB)]))
    assert where == "disk.holes[1].offset"
    assert "'u-boot' (bytes 8388096 to 16776704) overlaps 'idbloader' (bytes 32768 to 8388608)" in said


def test_a_hole_over_the_partition_table() -> None:
    where, said = only_fault(of=disk(holes=[hole(offset=33 * SECTOR, size=SECTOR)]))
    assert where == "disk.holes[0].offset"
    assert "overlaps 'GPT' (bytes 0 to 17408)" in said


def test_a_hole_over_the_backup_partition_table() -> None:
    where, said = only_fault(of=disk(holes=[hole(offset=2 * GIB - SECTOR, size=SECTOR)]))
    assert where == "disk.holes[0].offset"
    assert "overlaps 'backup GPT'" in said


def test_a_hole_over_a_partition() -> None:
    where, said = only_fault(of=disk(holes=[hole(size=16 * MIB)]))
    assert where == "partitions[0]"
    assert "'boot' (bytes 16777216 to 285212672) overlaps 'idbloader' (bytes 32768 to 16809984)" in said


def test_a_hole_off_the_end_of_the_disk() -> None:
    where, said = only_fault(of=disk(holes=[hole(offset=2 * GIB, size=SECTOR)]))
    assert where == "disk.holes[0].size"
    assert "ends 512 bytes behind the disk of 2GiB" in said


@pytest.mark.parametrize("field", ["offset", "size"])
def test_a_hole_of_parts_of_sectors(field: str) -> None:
    values = {"offset": 32 * KIB, "size": 64 * KIB}
    where, said = only_fault(of=disk(holes=[hole(**{**values, field: values[field] + 1})]))
    assert where == f"disk.holes[0].{field}"
    assert "expected whole sectors of 512 bytes" in said


def test_a_hole_of_no_size() -> None:
    assert only_fault(of=disk(holes=[hole(size=0)])) == (
        "disk.holes[0].size",
        "disk.holes[0].size: hole 'idbloader' has no size",
    )


def test_a_partition_off_the_end_of_the_disk() -> None:
    where, said = only_fault(boot(), root(size=Size(1776 * MIB)))
    assert where == "partitions[1].size"
    assert f"ends {GPT_TAIL} bytes behind what the backup GPT leaves" in said


def test_a_partition_of_no_size() -> None:
    assert only_fault(boot(size=Size(0)), root())[0] == "partitions[0].size"


def test_a_partition_that_is_not_aligned() -> None:
    where, said = only_fault(boot(size=Size(256 * MIB + 512 * KIB)), root())
    assert where == "partitions[0].size"
    assert "expected a multiple of 1MiB (disk.align), found 262656KiB" in said


@pytest.mark.parametrize(
    ("partitions", "where"),
    [
        ((boot(size=Size(33 * MIB)), root()), "partitions[0].size"),
        ((boot(), root(size=Size(15 * MIB))), "partitions[1].size"),
        ((boot(size=Size(2030 * MIB)), root()), "partitions[1].size"),
        ((boot(size=Size(4 * GIB)), root()), None),
    ],
)
def test_a_partition_too_small_for_its_file_system(partitions: Any, where: str | None) -> None:
    found = {key(error.path): error.message for error in faults(disk(), partitions)}
    assert found, "the layout was accepted"
    if where:
        assert list(found) == [where]
        assert "at least" in found[where]


def test_two_partitions_that_take_the_rest() -> None:
    where, said = only_fault(boot(size="rest"), root())
    assert where == "partitions[0].size"
    assert "takes the rest of the disk, yet others follow" in said


def test_only_the_last_partition_grows() -> None:
    assert only_fault(boot(grow=True), root())[0] == "partitions[0].grow"


def test_more_partitions_than_a_gpt_holds() -> None:
    slots = [root(name=f"r{i}", size=Size(16 * MIB), grow=False) for i in range(128)]
    where, said = only_fault(boot(), *slots, of=disk(size=Size(4 * GIB)))
    assert where == "partitions[128]"
    assert "holds 128 partitions, found 129" in said


def test_two_partitions_of_one_name() -> None:
    where, said = only_fault(boot(name="root"), root())
    assert where == "partitions[1].name"
    assert "there is a partition 'root' already, at index 0" in said


def test_two_holes_of_one_name() -> None:
    assert only_fault(of=disk(holes=[hole(), hole(offset=8 * MIB, size=MIB)]))[0] == "disk.holes[1].name"


@pytest.mark.parametrize("name", ["x" * 37, "😀" * 19])
def test_a_name_longer_than_36_utf16_units(name: str) -> None:
    where, said = only_fault(boot(), root(name=name))
    assert where == "partitions[1].name"
    assert "36 UTF-16 units at most" in said


@pytest.mark.parametrize("name", ["", 'a"b', "a\nb", "a/b", "a\\b"])
def test_a_name_that_tools_would_misread(name: str) -> None:
    assert only_fault(boot(), root(name=name))[0] == "partitions[1].name"


@pytest.mark.parametrize("name", ["x" * 36, "😀" * 18])
def test_a_name_of_36_utf16_units(name: str) -> None:
    assert not faults(disk(), [boot(), root(name=name)])


@pytest.mark.parametrize(
    ("partitions", "missing"), [((root(),), "boot"), ((boot(),), "rootfs")], ids=["boot", "rootfs"]
)
def test_a_disk_needs_boot_and_root(partitions: Any, missing: str) -> None:
    where, said = only_fault(*partitions)
    assert where == "partitions"
    assert f"contents: {missing}, found none" in said


def test_contents_need_their_file_system() -> None:
    where, said = only_fault(boot(filesystem="ext4"), root())
    assert where == "partitions[0].filesystem"
    assert "expected vfat for contents: boot, found ext4" in said


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"align": Size(3 * MIB)}, "disk.align"),
        ({"align": Size(512)}, "disk.align"),
        ({"align": Size(0)}, "disk.align"),
        ({"size": Size(2 * GIB + 512)}, "disk.size"),
        ({"size": Size(0)}, "disk.size"),
        ({"first_partition": Size(0)}, "disk.first-partition"),
        ({"first_partition": Size(16 * MIB + 512)}, "disk.first-partition"),
    ],
)
def test_a_disk_that_cannot_be(changes: dict[str, Size], where: str) -> None:
    assert where in [key(error.path) for error in faults(disk(**changes), [boot(), root()])]


def test_every_fault_is_found_in_one_pass() -> None:
    found = faults(disk(holes=[hole(size=0)]), [boot(size=Size(0)), root(name="")])
    assert [key(error.path) for error in found] == [
        "disk.holes[0].size",
        "partitions[1].name",
        "partitions[0].size",
    ]


def test_resolve_raises_an_input_error() -> None:
    with pytest.raises(LayoutError) as raised:
        resolve(disk(), [boot(size=Size(0)), root()])
    assert raised.value.path == ("partitions", 0, "size")
    assert raised.value.exit_status == ExitStatus.INPUT


# --- identifiers and labels -----------------------------------------------------------------------------


def test_identifiers_follow_from_digest_and_role() -> None:
    one = identifier("abc", "disk")
    assert one == identifier("abc", "disk")
    assert (one.version, one.variant) == (5, uuid.RFC_4122)
    assert len({one, identifier("abc", "partition root"), identifier("abd", "disk")}) == 3


def test_a_fat_serial_has_eight_digits() -> None:
    assert int(fat_serial("abc", "x"), 16) < 2**32
    assert len(fat_serial("abc", "x")) == 8


@pytest.mark.parametrize(
    ("name", "filesystem", "expected"),
    [("boot", "vfat", "BOOT"), ("a very long name", "vfat", "A-VERY-LONG"), ("Wurzel ö", "ext4", "Wurzel")],
)
def test_labels_are_what_every_tool_can_show(name: str, filesystem: str, expected: str) -> None:
    assert label(name, filesystem) == expected


def test_a_drawing_shows_holes_partitions_and_free_space() -> None:
    table: Table = resolve(disk(), [boot(), root()])
    assert draw(table).splitlines()[3].split() == [
        "64",
        "32KiB",
        "8160KiB",
        "hole",
        "idbloader:",
        "idbloader.img",
    ]
