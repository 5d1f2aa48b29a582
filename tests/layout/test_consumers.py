"""Everything that knows the layout says the same, and whatever does not is found when it is read back."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from emmc_boards import MAIX, MIB, SPLITS, boards, maix, memories, with_disk, with_memory, with_partition
from hypothesis import assume, given
from hypothesis import strategies as st

from boardwright.build.stage import rendered
from boardwright.errors import InputError
from boardwright.kinds import emmc
from boardwright.kinds.context import Context
from boardwright.layout import agreement, bootargs, consumers, loadscript, partitions, split, split_rules
from boardwright.layout.consumers import Consumers
from boardwright.schema.board import Board, Local, Memory
from boardwright.schema.project import load_project
from boardwright.schema.units import Size
from boardwright.vendor import axera_xml, uboot_env

ROOT = Path(__file__).parents[2]
OWN = consumers.derive(MAIX)
FIELDS = [field.name for field in dataclasses.fields(Consumers)]


def passing(board: Board) -> bool:
    return not (
        partitions.faults(board.disk, board.partitions)
        or split_rules.faults(board.memory)
        or list(bootargs.faults(board))
    )


def disagreements(found: Consumers, board: Board) -> list[str]:
    table = partitions.resolve(board.disk, board.partitions)
    return agreement.faults(found, table, split_rules.resolve(board.memory))


def with_split(board: Board, asked: Memory) -> Board:
    return msgspec.structs.replace(board, memory=asked)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Board, Board]:
    """Two boards, the second of them often the first with one thing changed."""
    first = with_split(draw(boards()), draw(SPLITS))
    if draw(st.booleans()):
        return first, with_split(draw(boards()), draw(SPLITS))
    parts = list(first.partitions)
    index = draw(st.integers(3, len(parts) - 1))
    size = parts[index].size
    if size != "rest":
        parts[index] = msgspec.structs.replace(parts[index], size=Size(size + 512 * 1024))
    return first, msgspec.structs.replace(first, partitions=parts)


# --- property: derived from one description, all agree; from two, what differs is found ----------------


@given(board=boards(), asked=memories() | SPLITS)
def test_no_layout_that_passes_disagrees_between_its_consumers(board: Board, asked: Memory) -> None:
    both = with_split(board, asked)
    for one in (board, both):
        if passing(one):
            assert disagreements(consumers.derive(one), one) == []


@given(pair=pairs())
def test_a_consumer_of_another_layout_is_found(pair: tuple[Board, Board]) -> None:
    assume(all(passing(board) for board in pair))
    ours, other = (consumers.derive(board) for board in pair)
    for name in FIELDS:
        foreign = getattr(other, name)
        if foreign is None or foreign == getattr(ours, name):
            continue
        said = disagreements(Consumers(**{name: foreign}), pair[0])
        assert said, f"{name} of another layout went unnoticed: {foreign!r}"


@given(place=st.integers(0, uboot_env.SIZE - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_of_the_environment_goes_unnoticed(place: int, bit: int) -> None:
    block = bytearray(OWN.environment or b"")
    block[place] ^= 1 << bit
    (said,) = disagreements(Consumers(environment=bytes(block)), MAIX)
    assert said.startswith("environment: the environment's CRC-32 is")


@given(text=st.text(max_size=200), name=st.sampled_from(["bootargs", "fstab", "fw_env", "load_script"]))
def test_text_that_means_nothing_is_a_disagreement_and_no_crash(text: str, name: str) -> None:
    assert disagreements(Consumers(**{name: text}), MAIX)


# --- what is made -------------------------------------------------------------------------------------


def test_the_maix_ivs_own() -> None:
    made = consumers.derive(MAIX)
    assert made.bootargs is not None
    words = made.bootargs.split()
    assert words[0] == "mem=3072M"
    assert "board_id=0x0,boot_reason=0x0,initcall_debug=0" in words
    assert words[-2:] == [
        "root=/dev/mmcblk0p10",
        "blkdevparts=mmcblk0:1536K(uboot),1536K(uboot_bk),1M(env),20M(param),6M(logo),1M(dtb),64M(kernel),"
        "1M(atf),1M(optee),27648M(rootfs),512M(soc),1024M(opt)",
    ]
    assert made.fw_env == "/dev/mmcblk0p3 0x0 0x20000 0x100\n"
    assert made.load_script == "insmod /soc/ko/ax_cmm.ko cmmpool=anonymous,0,0x1C0000000,5120M\n"
    assert (made.fstab or "").split("\n")[0].split()[:4] == [
        "/dev/mmcblk0p10", "/", "ext4", "defaults,noatime,x-systemd.growfs",
    ]  # fmt: skip
    assert set(made.updates or ()) == {
        "uboot.bin", "param.img", "logo.img", "dtb.img", "kernel.img", "atf.img", "optee.img", "rootfs.img",
        "soc.img", "opt.img",
    }  # fmt: skip
    assert len(made.environment or b"") == 0x20000


def test_the_index_of_a_package_carries_the_table_through_xml() -> None:
    made = consumers.derive(MAIX)
    assert made.axp is not None
    loader = axera_xml.Image("FDL", axera_xml.Kind.FDL, "fdl2_signed.bin")
    project = axera_xml.Project(made.axp, (loader,), name="AX650X")
    back = axera_xml.parse(axera_xml.write(project))
    assert disagreements(Consumers(axp=back.table), MAIX) == []


def test_a_partition_of_half_a_kibibyte_makes_the_index_count_in_sectors() -> None:
    parts = [
        msgspec.structs.replace(p, size=Size(MIB + 512)) if p.name == "dtb" else p for p in MAIX.partitions
    ]
    board = maix(partitions=parts, disk=msgspec.structs.replace(MAIX.disk, align=Size(512)))
    made = consumers.derive(board)
    assert made.axp is not None
    assert made.axp.unit is axera_xml.Unit.SECTOR
    assert disagreements(made, board) == []


def test_the_root_file_systems_own_templates_agree_with_the_layout() -> None:
    """What the image carries is made by templates of its own: they are read back like everything else."""
    project = load_project(ROOT)
    context = Context(project, project.board("maix-iv"), Local())
    etc = ROOT / "overlays/rootfs/maix-iv/etc"
    words = emmc.root_words(context)
    texts = {name: rendered(etc / name, etc / name, words) for name in ("fstab.j2", "fw_env.config.j2")}
    found = Consumers(fstab=texts["fstab.j2"], fw_env=texts["fw_env.config.j2"])
    assert disagreements(found, context.board) == []


# --- what is found wrong ------------------------------------------------------------------------------


def edited(field: str, old: str, new: str) -> Consumers:
    text = getattr(consumers.derive(MAIX), field)
    assert old in text
    return Consumers(**{field: text.replace(old, new)})


def cases() -> Iterator[tuple[Consumers, str]]:
    yield (
        edited("bootargs", "mem=3072M", "mem=4096M"),
        "mem= gives Linux 4294967296 bytes, expected 3221225472",
    )
    yield edited("bootargs", "mem=3072M ", ""), "expected one mem=, found 0"
    yield edited("bootargs", "mem=3072M", "mem=3072M mem=1G"), "expected one mem=, found 2"
    yield edited("bootargs", "mmcblk0p10", "mmcblk0p9"), "root=/dev/mmcblk0p9, expected /dev/mmcblk0p10"
    yield edited("bootargs", "mmcblk0:", "mmcblk1:"), "blkdevparts is for mmcblk1, expected mmcblk0"
    yield edited("bootargs", "512M(soc)", "256M(soc)"), "partition 11 is soc with 268435456 bytes"
    yield edited("bootargs", "512M(soc),", ""), "11 partitions, expected 12"
    yield edited("bootargs", "(opt)", "(data)"), "partition 12 is data"
    yield edited("bootargs", "1M(dtb)", "1M@0(dtb)"), "word 6: expected such as"
    yield (
        edited("fstab", "mmcblk0p11", "mmcblk0p12"),
        "/dev/mmcblk0p12 is opt, which is mounted at /opt, found /soc",
    )
    yield edited("fstab", "mmcblk0p4 ", "mmcblk0p40 "), "/dev/mmcblk0p40 is no partition of the layout"
    yield edited("fstab", "/soc  ext4", "/soc  vfat"), "/dev/mmcblk0p11 is ext4, found vfat"
    yield (
        edited("fstab", "/dev/mmcblk0p12", "#/dev/mmcblk0p12"),
        "nothing is mounted at /opt, expected /dev/mmcblk0p12",
    )
    yield (
        edited("fstab", "/dev/mmcblk0p12", "/dev/mmcblk0p7 /k ext4 ro 0 0\n/dev/mmcblk0p12"),
        "is kernel, which is not mounted, found /k",
    )
    yield (
        edited("fstab", "/dev/mmcblk0p12", "/dev/mmcblk0p11 /soc ext4 ro\n/dev/mmcblk0p12"),
        "/soc is mounted a second time",
    )
    yield (
        edited("fstab", "/dev/mmcblk0p12", "/dev/mmcblk0p11\n/dev/mmcblk0p12"),
        "expected four fields at least",
    )
    yield (
        edited("fw_env", "mmcblk0p3", "mmcblk0p4"),
        "/dev/mmcblk0p4 at 0x0 with 0x20000 bytes, expected /dev/mmcblk0p3",
    )
    yield edited("fw_env", "0x20000", "0x10000"), "with 0x10000 bytes"
    yield edited("fw_env", "0x0 ", "0x100 "), "at 0x100 with"
    yield edited("fw_env", "0x20000", "many"), "expected numbers for offset and size"
    yield (
        edited("fw_env", "/dev", "/dev/x 0 1 1\n/dev"),
        "expected one line of device, offset and size, found 2",
    )
    yield (
        edited("load_script", "5120M", "4096M"),
        "cmmpool=anonymous,0,0x1C0000000,4096M, expected anonymous,0,0x1C0000000,5120M",
    )
    yield (
        edited("load_script", "cmmpool=", "pool="),
        "expected one line that loads ax_cmm.ko with cmmpool=, found 0",
    )
    updates = dict(consumers.derive(MAIX).updates or {})
    yield Consumers(updates=updates | {"data.img": "data"}), "U-Boot looks for no data.img"
    yield Consumers(updates=updates | {"uboot.img": "uboot"}), "U-Boot looks for no uboot.img"
    yield Consumers(updates=updates | {"soc.img": "opt"}), "soc.img would go to soc, expected opt"
    yield Consumers(updates={k: v for k, v in updates.items() if v != "kernel"}), "no file for kernel"
    axp = consumers.derive(MAIX).axp
    assert axp is not None
    gap = (*axp.partitions[:-1], dataclasses.replace(axp.partitions[-1], gap=1))
    yield Consumers(axp=dataclasses.replace(axp, partitions=gap)), "a gap before opt"
    short = (*axp.partitions[:-1], dataclasses.replace(axp.partitions[-1], size=1))
    yield Consumers(axp=dataclasses.replace(axp, partitions=short)), "partition 12 is opt with 1024 bytes"
    bare = uboot_env.make(uboot_env.Environment({"bootdelay": "0"}))
    yield Consumers(environment=bare), "expected a variable bootargs, found none"


@pytest.mark.parametrize(("found", "words"), list(cases()))
def test_a_disagreement_is_said_with_both_sides(found: Consumers, words: str) -> None:
    said = disagreements(found, MAIX)
    assert any(words in line for line in said), said


def test_the_rest_of_the_device_is_as_good_as_its_size() -> None:
    axp = consumers.derive(MAIX).axp
    assert axp is not None
    rest = (*axp.partitions[:-1], dataclasses.replace(axp.partitions[-1], size=None))
    assert disagreements(Consumers(axp=dataclasses.replace(axp, partitions=rest)), MAIX) == []


def test_check_raises_all_of_them_at_once() -> None:
    found = Consumers(fw_env="/dev/mmcblk0p9 0x0 0x20000\n", bootargs="mem=1G")
    table = partitions.resolve(MAIX.disk, MAIX.partitions)
    with pytest.raises(InputError) as caught:
        agreement.check(found, table, split_rules.resolve(MAIX.memory))
    assert "bootargs: " in caught.value.message
    assert "fw_env.config: " in caught.value.message
    agreement.check(consumers.derive(MAIX), table, split_rules.resolve(MAIX.memory))


def test_an_environment_larger_than_its_partition_is_found() -> None:
    made = consumers.derive(MAIX)
    table = partitions.resolve(MAIX.disk, MAIX.partitions)
    small = msgspec.structs.replace(
        table,
        partitions=tuple(
            msgspec.structs.replace(p, size=512) if p.name == "env" else p for p in table.partitions
        ),
    )
    said = agreement.faults(Consumers(environment=made.environment), small, split_rules.resolve(MAIX.memory))
    assert "environment: the block has 131072 bytes, its partition 512" in said


def test_a_pool_where_the_board_file_has_none_is_found() -> None:
    table = partitions.resolve(MAIX.disk, MAIX.partitions)
    script = Consumers(load_script="insmod ax_cmm.ko cmmpool=a,0,0x1,1M\n")
    assert agreement.faults(script, table, None) == [
        "load script: a pool is loaded, and the board file has none"
    ]


# --- bootargs -----------------------------------------------------------------------------------------


def test_the_other_words_of_a_boards_bootargs_stay() -> None:
    text = "mem=4096M console=ttyS0,115200n8 quiet root=/dev/mmcblk0p9 panic=5 blkdevparts=mmcblk0:1M(a)"
    table = partitions.resolve(MAIX.disk, MAIX.partitions)
    found = bootargs.edited(text, bootargs.values(table, split_rules.resolve(MAIX.memory)))
    assert found.split()[:5] == [
        "mem=3072M", "console=ttyS0,115200n8", "quiet", "root=/dev/mmcblk0p10", "panic=5",
    ]  # fmt: skip
    assert disagreements(Consumers(bootargs=found), MAIX) == []


def test_what_bootargs_lack_is_added() -> None:
    table = partitions.resolve(MAIX.disk, MAIX.partitions)
    found = bootargs.edited("quiet", bootargs.values(table, split_rules.resolve(MAIX.memory)))
    assert found.startswith("mem=3072M quiet root=")
    assert disagreements(Consumers(bootargs=found), MAIX) == []


def test_a_word_twice_is_refused_rather_than_one_of_them_changed() -> None:
    with pytest.raises(InputError, match="expected one root=, found 2"):
        bootargs.edited("root=a root=b", {"root": "c"})


@pytest.mark.parametrize(
    ("append", "words"),
    [
        ("quiet mem=1G", "boot.append: expected no mem=, which is made from the layout, found 'mem=1G'"),
        ("root=/dev/sda1", "expected no root="),
        ("blkdevparts=mmcblk0:-(a)", "expected no blkdevparts="),
        ('dyndbg="file a"', "expected no quotes"),
        ("a;reset", "expected no quotes, '$', ';'"),
        ("${other}", "found '${other}'"),
        ("x" * 900, "the bootargs have 1110 characters, U-Boot's prompt takes 1005"),
    ],
)
def test_words_that_would_break_the_bootargs_are_refused(append: str, words: str) -> None:
    board = maix(boot=msgspec.structs.replace(MAIX.boot, append=append))
    fault, *_ = [fault for fault in bootargs.faults(board) if words in fault.message]
    assert fault.path == ("boot", "append")
    with pytest.raises(InputError):
        bootargs.bootargs(board)


def test_a_board_without_pools_has_no_cmmpool() -> None:
    board = with_memory(linux=None, cmm=None, cmm_for=None)
    with pytest.raises(InputError, match="no CMM pool"):
        bootargs.cmmpool(board.memory)
    assert "mem=" not in bootargs.bootargs(board)


def test_a_layout_that_cannot_be_has_no_bootargs() -> None:
    with pytest.raises(InputError, match=r"partitions\[10\]\.size"):
        consumers.derive(with_partition("soc", size=Size(1)))
    with pytest.raises(InputError, match=r"disk\.size"):
        bootargs.bootargs(with_disk(size=Size(0)))


# --- the load script ----------------------------------------------------------------------------------

SCRIPT = """#!/bin/sh
# insmod /soc/ko/ax_cmm.ko cmmpool=anonymous,0,0x1,1M
insmod /soc/ko/ax_mailbox.ko
insmod /soc/ko/ax_cmm.ko cmmpool=anonymous,0,0x200000000,4096M &
insmod /soc/ko/ax_sys.ko
"""


def test_one_value_of_the_script_changes_and_nothing_else() -> None:
    found = split_rules.resolve(MAIX.memory)
    assert found is not None
    text = loadscript.edited(SCRIPT, found)
    assert text == SCRIPT.replace("0x200000000,4096M", "0x1C0000000,5120M")
    assert loadscript.pools(text) == found.pools
    assert loadscript.edited(text, found) == text


@pytest.mark.parametrize(
    ("script", "words", "line"),
    [
        ("#!/bin/sh\n", "found 0", 0),
        ("#insmod ax_cmm.ko cmmpool=a,0,0x1,1M\n", "found 0", 0),
        (SCRIPT + SCRIPT, "found 2 (lines 4, 9)", 0),
        ("\ninsmod ax_cmm.ko cmmpool=$pool\n", "the script works its pools out", 2),
        ("insmod ax_cmm.ko cmmpool=a,0,1,1M\n", "cmmpool: pool 1: expected", 1),
        ("insmod ax_cmm.ko cmmpool=\n", "cmmpool: pool 1: expected", 1),
    ],
)
def test_a_script_that_is_not_one_plain_line_is_refused_where_it_is(
    script: str, words: str, line: int
) -> None:
    found = split.Split(0, 1, 1, (split.Pool("a", 1, 1),))
    with pytest.raises(InputError) as caught:
        loadscript.edited(script, found, "load.sh")
    assert words in caught.value.message
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == ("load.sh", line)


def test_the_environment_is_u_boots() -> None:
    block = consumers.derive(MAIX).environment or b""
    assert int.from_bytes(block[:4], "little") == zlib.crc32(block[4:])
    text = block[4:].split(b"\0", 1)[0].decode()
    assert text == f"bootargs={consumers.derive(MAIX).bootargs}"
