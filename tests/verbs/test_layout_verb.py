"""``invoke layout``: both maps, before and after, as text and JSON, and what a board's own words say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from boardwright.errors import InputError, InputErrors
from boardwright.layout.presets import PRESETS
from boardwright.verbs.layout import layout

ROOT = Path(__file__).parents[2]
SHIPPED = PRESETS["pipro-box"].text
CMDLINE = (
    "mem={mem} console=ttyS0,115200n8 board_id=0x0,boot_reason=0x0,initcall_debug=0 root={root} rw rootwait "
    "blkdevparts={parts}\n"
)
SCRIPT = "#!/bin/sh\ninsmod /soc/ko/ax_cmm.ko cmmpool={pool}\n"


def copied(tmp_path: Path, old: str, new: str) -> Path:
    """The project with another board file for the Maix-IV."""
    for name in ("recipes", "overlays", "patches"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "boards", tmp_path / "boards")
    file = tmp_path / "boards/maix-iv/board.yaml"
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return tmp_path


def running(
    tmp_path: Path, *, mem: str = "4096M", root: str = "/dev/mmcblk0p10", parts: str = SHIPPED,
    pool: str = "anonymous,0,0x200000000,4096M",
) -> tuple[str, str]:  # fmt: skip
    """Copies of a board's command line and script."""
    (tmp_path / "cmdline").write_text(CMDLINE.format(mem=mem, root=root, parts=parts))
    (tmp_path / "load.sh").write_text(SCRIPT.format(pool=pool))
    return str(tmp_path / "cmdline"), str(tmp_path / "load.sh")


def drawn(capsys: pytest.CaptureFixture[str], **options: str) -> str:
    assert layout(ROOT, "maix-iv", "", False, **options) == 0
    return capsys.readouterr().out


def test_both_maps_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    out = drawn(capsys)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "before: as shipped (pipro-box: Maix-IV, M4N-Dock, AXera-Pi Pro)" in out
    assert "10 rootfs 0x6100000 27GiB 0x6100000 24GiB 3GiB larger" in lines
    assert "11 soc 0x6C6100000 512MiB 0x606100000 512MiB moves 3GiB up" in lines
    assert "12 opt 0x6E6100000 1GiB 0x626100000 4GiB moves 3GiB up, 3GiB smaller" in lines
    assert "memory before: 8GiB, mem=4096M cmmpool=anonymous,0,0x200000000,4096M" in out
    assert "memory after: 8GiB, mem=3072M cmmpool=anonymous,0,0x1C0000000,5120M" in out
    assert f"        |{'L' * 32}{'C' * 32}|" in out
    assert f"        |{'L' * 24}{'C' * 40}|" in out
    assert "0x134000000  0x136000000   32MiB    reserved: op-tee" in out


def test_the_whole_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert layout(ROOT, "maix-iv", "", True) == 0
    value = json.loads(capsys.readouterr().out)
    for side, linux, rootfs in (("before", 4, 24), ("after", 3, 27)):
        memory, disk = value[side]["memory"], value[side]["disk"]
        assert memory["linux"] == linux * 2**30
        assert sum(area["size"] for area in memory["areas"]) == 8 * 2**30
        parts = disk["partitions"]
        assert parts[9] == parts[9] | {
            "name": "rootfs",
            "number": 10,
            "offset": 0x6100000,
            "size": rootfs * 2**30,
        }
        assert sum(part["size"] for part in parts) == disk["size"] == 29281 * 2**20
    assert value["consumers"]["bootargs"].startswith("mem=3072M ")
    assert value["consumers"]["updates"]["uboot.bin"] == "uboot"


def test_a_board_with_a_gpt_is_drawn_and_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert layout(ROOT, "rock5b", "", False) == 0
    assert "partition 2 root: ext4, rootfs, grows on first boot" in capsys.readouterr().out
    assert layout(ROOT, "rock5b", "", True) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["before"], value["cma"]) == (None, "512M@0-4G")
    assert [part["name"] for part in value["after"]["disk"]["partitions"]] == ["boot", "root"]
    assert value["after"]["disk"]["holes"][1]["name"] == "u-boot"


def test_what_a_board_says_itself_is_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = "mmcblk0:1536K(uboot),1536K(uboot_bk),1M(env),4M(spare),8192M(rootfs),512M(soc),-(rest)"
    cmdline, script = running(tmp_path, mem="2048M", root="/dev/mmcblk0p5", parts=parts,
                              pool="anonymous,0,0x180000000,6144M")  # fmt: skip
    out = drawn(capsys, cmdline=cmdline, load_script=script)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "before: as the board runs" in out
    assert "before: wrong" not in out
    assert "memory before: 8GiB, mem=2048M cmmpool=anonymous,0,0x180000000,6144M" in out
    assert (
        "10 rootfs 0x6100000 27GiB 0x800000 8GiB number 5 becomes 10, moves 89MiB up, 19GiB larger" in lines
    )
    assert "4 spare - - 0x400000 4MiB gone" in lines
    assert "4 param 0x400000 20MiB - - new" in lines


def test_a_command_line_alone_leaves_the_pools_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cmdline, _ = running(tmp_path)
    out = drawn(capsys, cmdline=cmdline)
    assert "memory before: 8GiB, mem=4096M\n" in out
    assert "neither Linux nor a pool" in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mem": "6144M"}, "overlaps Linux by 2GiB: mem=6144M ends at 0x280000000"),
        ({"mem": "512M"}, "mem=512M: expected 1GiB at least"),
        ({"pool": "anonymous,0,0x200000000,8192M"}, "leaves the DRAM, 0x100000000 to 0x300000000, by 4GiB"),
        (
            {"pool": "a,0,0x200000000,2048M:b,0,0x240000000,2048M"},
            "pool b (0x240000000 to 0x2C0000000) overlaps",
        ),
        ({"root": "/dev/mmcblk0p9"}, "root=/dev/mmcblk0p9 is no partition rootfs of its blkdevparts"),
    ],
)
def test_what_does_not_fit_together_on_a_board_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], words: str
) -> None:
    cmdline, script = running(tmp_path, **changes)
    out = drawn(capsys, cmdline=cmdline, load_script=script)
    (line,) = [line for line in out.splitlines() if line.startswith("before: wrong: ")]
    assert words in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "bootargs: expected one blkdevparts=, found 0"),
        (f"blkdevparts={SHIPPED}", "bootargs: expected one mem=, found 0"),
        (f"mem=1T root=/dev/mmcblk0p1 blkdevparts={SHIPPED}", "mem: expected such as '3072M', found '1T'"),
        ("mem=1G root=a blkdevparts=mmcblk0:1M@0(a)", "word 1: expected such as '512M(soc)'"),
        (
            "mem=1G root=a blkdevparts=mmcblk0:64G(a),-(b)",
            "'a' has 68719476736 bytes from byte 0 on, the device 30703353856",
        ),
    ],
)
def test_a_command_line_that_says_nothing_is_refused_by_its_name(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "cmdline").write_text(text)
    with pytest.raises(InputError) as caught:
        layout(ROOT, "maix-iv", "", False, str(tmp_path / "cmdline"))
    assert words in caught.value.message
    assert str(caught.value.place) == f"{tmp_path / 'cmdline'}:1"


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        layout(ROOT, "maix-iv", "", False, str(tmp_path / "no"))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        layout(ROOT, "maix-iv", "", False, str(tmp_path))
    (tmp_path / "big").write_bytes(bytes(2**20 + 1))
    with pytest.raises(InputError, match="1048576 bytes at most"):
        layout(ROOT, "maix-iv", "", False, str(tmp_path / "big"))
    with pytest.raises(InputError, match="expected --cmdline with --load-script"):
        layout(ROOT, "maix-iv", "", False, "", str(tmp_path / "big"))
    with pytest.raises(InputError, match="rock5b has a partition table of its own"):
        layout(ROOT, "rock5b", "", False, str(tmp_path / "big"))


@pytest.mark.parametrize(
    ("old", "new", "words", "hint"),
    [
        (
            "  cmm: 5GiB",
            "  cmm: 6GiB",
            "memory.cmm: pool anonymous (0x1C0000000 to 0x340000000) leaves the DRAM",
            "linux 3GiB, cmm 5GiB",
        ),
        (
            "name: rootfs, size: 27648MiB",
            "name: rootfs, size: 29184MiB",
            "partition 'soc' ends 512MiB behind the disk of 29281MiB",
            "smaller",
        ),
        (
            "size: 1536KiB, filesystem: raw, contents: uboot,",
            "size: 2MiB, filesystem: raw, contents: uboot,",
            "partitions[1].at: partition 'uboot_bk' must begin at byte 1572864",
            "must have 1536KiB together",
        ),
    ],
)
def test_a_layout_that_cannot_be_is_refused_at_its_line(
    tmp_path: Path, old: str, new: str, words: str, hint: str
) -> None:
    root = copied(tmp_path, old, new)
    with pytest.raises(InputError) as caught:
        layout(root, "maix-iv", "", False)
    errors = caught.value.errors if isinstance(caught.value, InputErrors) else [caught.value]
    error = next(error for error in errors if words in error.message)
    assert hint in (error.hint or "")
    assert error.place is not None
    assert error.place.file == "boards/maix-iv/board.yaml"
    line = (root / error.place.file).read_text().splitlines()[error.place.line - 1]
    assert "cmm:" in line or "name:" in line
