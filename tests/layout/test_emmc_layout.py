"""A disk whose partitions only a command line names: what passes is right, what is wrong is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from emmc_boards import (
    FRONT,
    KIB,
    MAIX,
    MIB,
    WRONG,
    boards,
    kernel_partitions,
    maix,
    part,
    with_disk,
    with_partition,
)
from hypothesis import event, given
from hypothesis import strategies as st

from boardwright.errors import InputError
from boardwright.layout import blkdevparts
from boardwright.layout.extents import SECTOR, SMALLEST, key
from boardwright.layout.partitions import faults, resolve
from boardwright.schema.board import Board, Hole
from boardwright.schema.units import Size

GPT_SIZE = Size(32 * MIB)


def of(board: Board) -> Any:
    return resolve(board.disk, board.partitions)


def said(board: Board) -> list[tuple[str, str, str | None]]:
    found = faults(board.disk, board.partitions)
    return [(key(error.path), error.message.split(": ", 1)[1], error.hint) for error in found]


def test_the_maix_iv_keeps_numbers_and_places_of_what_the_loader_finds() -> None:
    table = of(MAIX)
    assert [(p.number, p.name, p.offset) for p in table.partitions][:10] == [
        (1, "uboot", 0), (2, "uboot_bk", 0x180000), (3, "env", 0x300000), (4, "param", 0x400000),
        (5, "logo", 0x1800000), (6, "dtb", 0x1E00000), (7, "kernel", 0x1F00000), (8, "atf", 0x5F00000),
        (9, "optee", 0x6000000), (10, "rootfs", 0x6100000),
    ]  # fmt: skip
    assert table.partitions[-1].end == MAIX.disk.size
    assert table.path(table.holding("rootfs")) == "/dev/mmcblk0p10"


def test_a_device_whose_name_ends_in_a_letter_has_no_p_before_the_number() -> None:
    table = of(with_disk(device="sda"))
    assert table.path(table.holding("env")) == "/dev/sda3"


def test_a_gpt_has_no_device_paths() -> None:
    table = of(MAIX)
    with pytest.raises(ValueError, match="PARTUUID"):
        msgspec.structs.replace(table, device=None).path(table.partitions[0])


@given(board=boards())
def test_no_layout_that_passes_overlaps_or_leaves_the_device(board: Board) -> None:
    if faults(board.disk, board.partitions):
        event("refused")
        return
    event("passes")
    table = of(board)
    position = 0
    for wanted, found in zip(board.partitions, table.partitions, strict=True):
        assert found.offset == position, "no gaps, no overlaps"
        assert found.size > 0
        assert found.size % SECTOR == 0
        assert found.size >= SMALLEST.get(found.filesystem, 1)
        assert wanted.size == "rest" or wanted.size == found.size
        assert wanted.at is None or wanted.at == found.offset
        position = found.end
    assert position <= board.disk.size
    text = blkdevparts.text(table.partitions, board.disk.device)
    assert kernel_partitions(text) == [(p.name, p.offset, p.size) for p in table.partitions]
    device, entries = blkdevparts.parse(text)
    assert device == board.disk.device
    assert [(e.name, e.size) for e in entries] == [(p.name, p.size) for p in table.partitions]


@given(board=boards(sizes=WRONG))
def test_every_refusal_is_at_a_value_of_the_file_and_says_a_number_and_what_to_do(board: Board) -> None:
    for error in faults(board.disk, board.partitions):
        assert error.path[0] in ("disk", "partitions")
        if error.path[0] == "partitions" and len(error.path) > 1:
            assert 0 <= int(error.path[1]) < len(board.partitions)
        assert any(character.isdigit() for character in error.message), error.message
        assert error.hint, error.message


@given(sizes=st.lists(st.integers(1, 2**40), min_size=1, max_size=31))
def test_any_size_is_written_exactly(sizes: list[int]) -> None:
    text = "mmcblk0:" + ",".join(f"{blkdevparts.size_text(s)}(p{n})" for n, s in enumerate(sizes))
    assert [entry.size for entry in blkdevparts.parse(text)[1]] == sizes


@pytest.mark.parametrize(
    ("board", "where", "words", "hint"),
    [
        (
            with_partition("rootfs", size=Size(40000 * MIB)),
            "partitions[9].size",
            "ends 10816MiB behind the disk of 29281MiB",
            "make partitions 11344MiB smaller in all, which leaves 16MiB to 'opt'",
        ),
        (
            with_partition("rootfs", size=Size(28672 * MIB)),
            "partitions[11].size",
            "and that is 0 bytes: those before it end at 30703353856 of 30703353856",
            "smaller",
        ),
        (
            with_partition("uboot", size=Size(MIB)),
            "partitions[1].at",
            "byte 1572864, where the loader was built to find it; those before it end at 1048576",
            "must have",
        ),
        (with_partition("uboot", size=Size(MIB)), "partitions[2].at", "byte 3145728", "must have"),
        (
            with_partition("dtb", size=Size(700 * KIB)),
            "partitions[5].size",
            "multiple of 512KiB (disk.align), found 700KiB",
            "write 512KiB",
        ),
        (
            with_partition("soc", size=Size(8 * MIB)),
            "partitions[10].size",
            "ext4 needs 16MiB at least",
            "write 16MiB or more",
        ),
        (
            with_partition("soc", size="rest"),
            "partitions[10].size",
            "takes the rest of the disk, yet others follow it",
            "put it last",
        ),
        (
            with_partition("kernel", name="boot"),
            "partitions[6].name",
            "expected 'kernel', by which U-Boot finds it, found 'boot'",
            "write name: kernel",
        ),
        (with_partition("opt", name="o" * 32), "partitions[11].name", "(32)", "32 bytes"),
        (with_partition("opt", name="o,pt"), "partitions[11].name", "found 'o,pt'", "32 bytes"),
        (
            with_partition("opt", name="soc"),
            "partitions[11].name",
            "found 'soc' at index 10 already",
            "otherwise",
        ),
        (
            with_partition("opt", mount="/soc"),
            "partitions[11].mount",
            "found '/soc' at index 10 already",
            "otherwise",
        ),
        (with_partition("opt", mount="/"), "partitions[11].mount", "expected / for contents: rootfs", None),
        (
            with_partition("kernel", mount="/k"),
            "partitions[6].mount",
            "expected none for filesystem: raw, found /k",
            None,
        ),
        (with_partition("kernel", grow=True), "partitions[6].grow", "expected false", None),
        (
            with_partition("rootfs", filesystem="raw"),
            "partitions[9].filesystem",
            "expected ext4 for contents: rootfs, found raw",
            "write filesystem: ext4",
        ),
        (
            with_partition("opt", filesystem="vfat"),
            "partitions[11].filesystem",
            "expected ext4 for contents: data, found vfat",
            "ext4",
        ),
        (
            with_partition("opt", contents="kernel", name="kernel"),
            "partitions[11].contents",
            "found 'kernel' at index 6 already",
            "otherwise",
        ),
        (
            with_partition("opt", contents="boot", filesystem="vfat"),
            "partitions[11].contents",
            "expected no boot partition",
            "leave",
        ),
        (with_disk(size=Size(29281 * MIB + 512)), "disk.size", "multiple of 512KiB", "write 29281MiB"),
        (with_disk(size=Size(0)), "disk.size", "more than 0, found 0B", "write 512KiB"),
        (with_disk(align=Size(3 * KIB)), "disk.align", "power of two, 512B at least, found 3KiB", "512KiB"),
        (
            with_disk(first_partition=Size(MIB)),
            "disk.first-partition",
            "begins at byte 0, found 1MiB",
            "leave the key out",
        ),
        (
            with_disk(holes=[Hole(name="h", offset=Size(0), size=Size(512))]),
            "disk.holes",
            "knows no gaps, found 1",
            "raw",
        ),
        (
            maix(partitions=[p for p in MAIX.partitions if p.name != "atf"]),
            "partitions",
            "contents: atf, found none in 11",
            "shipped",
        ),
        (
            maix(
                partitions=[
                    *MAIX.partitions[:-1],
                    *(part(f"d{n}", 16 * MIB, "ext4", "data") for n in range(21)),
                ]
            ),
            "partitions[31]",
            "31 partitions of an eMMC, found 32",
            "leave out 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_is_refused(board: Board, where: str, words: str, hint: str | None) -> None:
    found = [(message, help) for path, message, help in said(board) if path == where]
    assert any(words in message and (hint is None or hint in (help or "")) for message, help in found), said(
        board
    )


def test_an_environment_smaller_than_u_boots_is_refused() -> None:
    small = part("env", 64 * KIB, "raw", "env")
    board = maix(
        disk=msgspec.structs.replace(MAIX.disk, align=Size(512)),
        partitions=[*FRONT[:2], small, *MAIX.partitions[3:]],
    )
    assert (
        "partitions[2].size",
        "U-Boot's environment has 128KiB, found 64KiB",
        "write 1MiB, as shipped",
    ) in said(board)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected 'mmcblk0:' and partitions"),
        ("mmcblk0", "expected 'mmcblk0:'"),
        ("mmcblk0:", "word 1"),
        ("mmcblk0:1M(a),,1M(b)", "word 2"),
        ("mmcblk0:1M", "word 1: expected such as '512M(soc)', found '1M'"),
        ("mmcblk0:1T(a)", "found '1T(a)'"),
        ("mmcblk0:-1(a)", "found '-1(a)'"),
        ("mmcblk0:1M@0(a)", "found '1M@0(a)'"),
        ("mmcblk0:1M(a)ro", "found '1M(a)ro'"),
        ("mmcblk0:1M(a);mmcblk1:1M(b)", "word 1"),
        ("mmcblk0:-(a),1M(b)", "word 1 takes the rest, yet 'b' follows"),
        ("mmcblk0:-M(a)", "found '-M(a)'"),
        ("mmcblk0:1M()", "found '1M()'"),
    ],
)
def test_text_that_u_boot_could_not_read_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        blkdevparts.parse(text)
    assert words in caught.value.message


@given(
    text=st.text(max_size=80)
    | st.from_regex(r"mmcblk0:([0-9]{1,3}[KMG]?\([a-z]{0,3}\),?){0,4}", fullmatch=True)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        device, entries = blkdevparts.parse(text)
    except InputError:
        return
    assert device
    assert entries


def test_contents_of_blkdevparts_are_refused_in_a_gpt() -> None:
    gpt = msgspec.structs.replace(MAIX.disk, table="gpt", first_partition=Size(16 * MIB), align=Size(MIB))
    found = faults(
        gpt,
        [
            part("boot", GPT_SIZE * 2, "vfat", "boot"),
            part("root", "rest", "ext4", "rootfs"),
            part("env", MIB, "raw", "env"),
        ],
    )
    assert any("expected boot or rootfs in a GPT, found env" in error.message for error in found)


@pytest.mark.parametrize(
    "board",
    [
        with_partition("rootfs", size=Size(40000 * MIB)),
        maix(disk=msgspec.structs.replace(MAIX.disk, size=Size(29 * MIB))),
        maix(disk=msgspec.structs.replace(MAIX.disk, align=Size(3))),
    ],
    ids=["one too large", "a disk too small", "an alignment that is none"],
)
def test_one_mistake_is_told_once(board: Board) -> None:
    assert len(said(board)) == 1, said(board)
