"""The shipped layouts are those of the sources, and any board's own text is read like them."""

from __future__ import annotations

import pytest
from emmc_boards import MIB, kernel_partitions

from boardwright.errors import InputError
from boardwright.layout import blkdevparts, presets
from boardwright.layout.presets import PRESETS

PIPRO = (
    "mmcblk0:1536K(uboot),1536K(uboot_bk),1M(env),20M(param),6M(logo),1M(dtb),64M(kernel),1M(atf),1M(optee),"
    "24576M(rootfs),512M(soc),4096M(opt)"
)
TOTALS = {
    "pipro-box": 29281, "pipro-box-no-optee": 29280, "emmc": 7117, "emmc-no-optee": 7116,
    "master": 7265, "master-no-optee": 7264, "ab": 6334, "ab-no-optee": 6332,
    "recovery": 29356, "pyramid": 29840, "ssd": 7261, "ssd-no-optee": 7260, "nand": 231.25,
}  # fmt: skip


def test_the_maix_ivs_is_the_text_of_the_source() -> None:
    assert PRESETS["pipro-box"].text == PIPRO


@pytest.mark.parametrize("name", PRESETS)
def test_root_is_where_the_source_says_and_the_sizes_add_up(name: str) -> None:
    preset = PRESETS[name]
    table = preset.table()
    assert table.partitions[preset.root - 1].contents == "rootfs"
    assert table.size == TOTALS[name] * MIB
    text = blkdevparts.text(table.partitions, table.device or "")
    assert presets.table(text) == table
    assert kernel_partitions(text) == [(p.name, p.offset, p.size) for p in table.partitions]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pipro-box", "/dev/mmcblk0p10"),
        ("pipro-box-no-optee", "/dev/mmcblk0p9"),
        ("ab", "/dev/mmcblk0p16"),
        ("ab-no-optee", "/dev/mmcblk0p14"),
        ("ssd", "/dev/nvme0n1p7"),
        ("ssd-no-optee", "/dev/nvme0n1p6"),
        ("recovery", "/dev/mmcblk0p12"),
    ],
)
def test_root_is_named_as_in_the_source(name: str, path: str) -> None:
    table = PRESETS[name].table()
    assert table.path(table.holding("rootfs")) == path


@pytest.mark.parametrize(
    "name", [n for n, p in PRESETS.items() if p.word == "blkdevparts" and "mmc" in p.text]
)
def test_the_loader_and_its_environment_lie_where_they_were_built_to(name: str) -> None:
    offsets = {p.name: p.offset for p in PRESETS[name].table().partitions}
    assert (offsets["uboot"], offsets["uboot_bk"], offsets["env"]) == (0, 0x180000, 0x300000)


def test_every_preset_says_where_it_is_from_and_how_sure_that_is() -> None:
    assert {p.name for p in PRESETS.values() if p.confidence != "source"} == {"recovery", "pyramid"}
    assert all(p.source for p in PRESETS.values())


def test_second_ones_of_a_pair_are_mounted_by_nobody() -> None:
    mounts = {p.name: p.mount for p in PRESETS["ab"].table().partitions if p.filesystem == "ext4"}
    assert mounts == {
        "param": "/param", "param_B": None, "rootfs": "/", "rootfs_B": None, "soc": "/soc", "soc_B": None,
        "opt": "/opt",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [
        ("mmcblk0:1M(a),-(b)", None, "'b' takes the rest of a device of unknown size"),
        ("mmcblk0:1M(a),1M(a)", None, "word 2: 'a' is there already"),
        ("mmcblk0:1M(a),2M(b)", 2 * MIB, "'b' has 2097152 bytes from byte 1048576 on, the device 2097152"),
        ("mmcblk0:2M(a),-(b)", 2 * MIB, "'b' has 0 bytes"),
        ("mmcblk0:0M(a)", None, "'a' has 0 bytes from byte 0 on, the device more than 0"),
    ],
)
def test_a_boards_text_that_cannot_be_is_refused(text: str, size: int | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        presets.table(text, size)
    assert words in caught.value.message


def test_a_boards_text_with_a_rest_and_a_comma_at_the_end_is_read() -> None:
    assert presets.table("mmcblk0:1M(a),-(b)", 3 * MIB).partitions[1].size == 2 * MIB
    assert presets.table("mmcblk0:1M(a),").size == MIB
