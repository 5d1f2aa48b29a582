"""What docs/maix-iv.md says in numbers is what the program says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from emmc_boards import MAIX, MIB, ROOT

from boardwright.errors import InputError
from boardwright.layout import consumers, drawing, maps, split_rules
from boardwright.layout.models import MODELS, STEP
from boardwright.layout.presets import PRESETS
from boardwright.schema.units import Size
from boardwright.vendor import ext4files
from boardwright.verbs.layout import layout

PAGE = (ROOT / "docs/maix-iv.md").read_text()


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_needs(name: str) -> None:
    model = MODELS[name]
    (row,) = re.findall(
        rf"^\| `{re.escape(name)}` \| (\d+) MiB \| (\d+) MiB \| \*(\w+)\*.*\| ([\d.]+) GiB", PAGE, re.M
    )
    pool = -(-model.need // STEP) * STEP
    assert row == (
        str(-(-model.files // MIB)),
        str(model.need // MIB),
        model.basis,
        f"{pool / 2**30:g}",
    )


@pytest.mark.parametrize("name", [name for name in PRESETS if not name.endswith("-no-optee")])
def test_the_shipped_layouts(name: str) -> None:
    preset = PRESETS[name]
    (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.M)
    assert f"| {preset.table().size / MIB:g} MiB |" in row
    assert f"*{preset.confidence}*" in row
    assert re.search(rf"\bp?{preset.root}(th)?\b", row)


def test_a_layout_without_op_tee_for_each_the_page_promises() -> None:
    assert {name.removesuffix("-no-optee") for name in PRESETS if name.endswith("-no-optee")} == {
        "pipro-box", "emmc", "master", "ab", "ssd",
    }  # fmt: skip


def test_the_drawing_is_the_programs() -> None:
    before = maps.shipped(MAIX)
    drawn = drawing.compare(before, maps.planned(MAIX)).splitlines()
    block = PAGE.split("$ invoke layout --board maix-iv\n", 1)[1].split("\n(rows left out", 1)[0]
    shown = [line.removeprefix("    ") for line in block.splitlines() if line.strip()]
    assert len(shown) == 9
    assert [line for line in shown if line not in drawn] == []


def test_the_words_and_the_refusal_are_the_programs() -> None:
    assert (consumers.derive(MAIX).load_script or "x").rstrip() in PAGE
    four = Size(4 * 2**30)
    wrong = msgspec.structs.replace(MAIX.memory, linux=four, cmm=four)
    (fault,) = split_rules.faults(wrong)
    assert f": {fault.message}\n    hint: {fault.hint}\n" in PAGE


def test_what_a_board_runs_is_judged_as_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"mem=6144M root=/dev/mmcblk0p10 blkdevparts={PRESETS['pipro-box'].text}"
    (tmp_path / "cmdline").write_text(text)
    (tmp_path / "load.sh").write_text("insmod /soc/ko/ax_cmm.ko cmmpool=anonymous,0,0x200000000,4096M\n")
    layout(ROOT, "maix-iv", "", False, str(tmp_path / "cmdline"), str(tmp_path / "load.sh"))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("before: wrong")]
    assert f"    {line}\n" in PAGE


@pytest.mark.parametrize(
    ("cmdline", "script", "where", "words"),
    [
        ("root=/dev/mmcblk1p2 mem=2048M", None, "cmdline:1", "expected one blkdevparts=, found 0: 'root="),
        (None, "#!/bin/sh\n", "load.sh", "expected one line that loads ax_cmm.ko with cmmpool=, found 0"),
        (None, "insmod ax_cmm.ko cmmpool=a,0,1,2M\n", "load.sh:1", "cmmpool: pool 1: expected such as"),
    ],
)
def test_what_a_board_says_wrongly_is_told_of_the_users_file(
    tmp_path: Path, cmdline: str | None, script: str | None, where: str, words: str
) -> None:
    text = cmdline or f"mem=4096M root=/dev/mmcblk0p10 blkdevparts={PRESETS['pipro-box'].text}"
    (tmp_path / "cmdline").write_text(text)
    (tmp_path / "load.sh").write_text(script or "")
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        layout(
            ROOT, "maix-iv", "", False, str(tmp_path / "cmdline"),
            str(tmp_path / "load.sh") if script else "",
        )  # fmt: skip
    assert str(caught.value.place) == f"{tmp_path}/{where}"


def test_more_partitions_than_the_kernel_numbers_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ",".join(f"1K(d{n})" for n in range(20))
    text = f"mem=4096M root=/dev/mmcblk0p10 blkdevparts={PRESETS['pipro-box'].text},{more}"
    (tmp_path / "cmdline").write_text(text)
    layout(ROOT, "maix-iv", "", False, str(tmp_path / "cmdline"))
    assert "before: wrong: 32 partitions, of which the kernel numbers 31" in capsys.readouterr().out


def test_what_to_do_about_a_vendors_opt_that_is_too_large_is_the_programs() -> None:
    opt = maps.planned(MAIX).table
    assert opt is not None
    partition = next(p for p in opt.partitions if p.name == "opt")
    assert f"partition opt has {partition.size} bytes; the vendor's files need 1600000000" in PAGE
    assert f"    hint: {ext4files.larger(partition, 1_600_000_000)}\n" in PAGE
