"""What the executor refuses, and with which words; the journal's damage; the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from power import LOST, Fragile, PowerCut
from world import ENVIRONMENT, FRONT, SHIPPED, STICK_INIT, STICK_ROOT, Job, World, identity, make_world, run

from boardwright.repartition import __main__, execute
from boardwright.repartition.journal import NAME, Journal
from boardwright.repartition.medium import Medium
from boardwright.repartition.parts import Refused

JOB = Job(f"mmcblk0:{FRONT},13M(rootfs),4M(soc),8M(opt)")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def stick(tmp_path: Path) -> Path:
    return tmp_path / "stick"


def interrupted(world: World, stick: Path, word: str) -> None:
    """Cut the power right after the first event of this name behind the guard."""
    whole = Fragile(world.device, stick, None, LOST)
    before = world.device.read_bytes()
    run(whole, JOB)
    whole.close()
    guard = [n for n, what in enumerate(whole.log) if what.startswith(f"write {ENVIRONMENT} ")][1]
    fuse = next(n for n, what in enumerate(whole.log) if n > guard and what.startswith(word))
    world.device.write_bytes(before)
    for path in stick.iterdir():
        path.unlink()
    with pytest.raises(PowerCut):
        run(Fragile(world.device, stick, fuse, "kept"), JOB)


def words(world: World, stick: Path, *more: str) -> list[str]:
    return ["--device", str(world.device), "--stick", str(stick), *more]


def asked(to: str = JOB.to) -> list[str]:
    return ["--to", to, "--stick-root", STICK_ROOT, "--environment", hex(ENVIRONMENT)]


def test_another_device_is_refused(world: World, stick: Path) -> None:
    interrupted(world, stick, "write")
    medium = Medium(world.device, stick)
    journal = execute.pending(medium)
    assert journal is not None
    with pytest.raises(Refused, match="the journal is about the device"):
        execute.resume(medium, journal, identity(medium) | {"cid": "other"}, print)
    medium.close()


def test_a_damaged_copy_is_not_put_on_the_device(world: World, stick: Path) -> None:
    interrupted(world, stick, "write")
    before = world.device.read_bytes()
    with (stick / "rootfs.img").open("r+b") as file:
        file.seek(1024 + 200)
        file.write(b"\xff")
    medium = Medium(world.device, stick)
    with pytest.raises(Refused, match=r"rootfs.img on the stick has SHA-256 [0-9a-f]{16}, its record says"):
        run(medium, JOB)
    medium.close()
    rootfs = next(part for part in world.parts if part.name == "rootfs")
    assert world.device.read_bytes()[rootfs.offset : rootfs.end] == before[rootfs.offset : rootfs.end]


def test_a_journal_with_a_damaged_middle_is_refused(world: World, stick: Path) -> None:
    interrupted(world, stick, "write")
    lines = (stick / NAME).read_bytes().split(b"\n")
    lines[2] = lines[2][:-1] + b"!"
    (stick / NAME).write_bytes(b"\n".join(lines))
    medium = Medium(world.device, stick)
    with pytest.raises(Refused, match="record 3 is damaged while record 4 is sound"):
        execute.pending(medium)
    medium.close()


def test_a_torn_last_record_is_cut_off(world: World, stick: Path) -> None:
    medium = Medium(world.device, stick)
    journal = Journal(medium)
    journal.begin_anew({"plan": []})
    journal.add({"done": 0})
    whole = (stick / NAME).read_bytes()
    for end in range(len(whole) - 14, len(whole)):
        (stick / NAME).write_bytes(whole[:end])
        again = Journal(medium)
        assert again.records == [{"plan": []}]
        again.add({"done": 0})
        assert (stick / NAME).read_bytes() == whole
    medium.close()


def test_a_file_system_that_grew_since_the_plan_is_refused(world: World, stick: Path) -> None:
    medium = Fragile(world.device, stick, 30, LOST)
    with pytest.raises(PowerCut):
        run(medium, JOB)
    medium.close()
    journal = Path(stick / NAME).read_text()
    assert "backup" in journal
    rewritten = Journal(Medium(world.device, stick))
    plan = rewritten.records[0]
    plan["plan"][0]["size"] -= 4096
    rewritten.begin_anew(plan)
    with pytest.raises(Refused, match="had a file system of 12578816 bytes when the plan was made"):
        run(Medium(world.device, stick), JOB)


def test_the_command_line_plans_runs_and_tells(
    world: World, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = world.device.read_bytes()
    assert __main__.main(words(world, stick, "plan", *asked())) == 0
    assert "copy 7.895 MiB of rootfs" in capsys.readouterr().out
    assert world.device.read_bytes() == before
    assert __main__.main(words(world, stick, "status")) == 0
    assert "nothing is interrupted" in capsys.readouterr().out
    assert __main__.main(words(world, stick, "run", *asked())) == 0
    assert "the new layout is written" in capsys.readouterr().out
    assert __main__.main(words(world, stick, "resume")) == 0
    assert "nothing to resume" in capsys.readouterr().out


def test_the_command_line_tells_what_is_interrupted_and_goes_on(
    world: World, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(world, stick, "write")
    assert __main__.main(words(world, stick, "status")) == 0
    assert "steps are left" in capsys.readouterr().out
    assert __main__.main(words(world, stick, "run", *asked())) == 1
    assert "not finished" in capsys.readouterr().err
    assert __main__.main(words(world, stick, "resume")) == 0


def test_a_lost_stick_is_noticed(world: World, stick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(world, stick, "write")
    (stick / NAME).unlink()
    assert __main__.main(words(world, stick, "run", *asked())) == 1
    assert "a run was interrupted" in capsys.readouterr().err


def test_errors_are_one_line_with_a_status(
    world: World, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["--device", "/nonexistent", "--stick", str(stick), "status"]) == 1
    assert "/nonexistent: No such file" in capsys.readouterr().err
    assert __main__.main(words(world, stick, "plan", *asked("mmcblk0:1M(uboot)"))) == 1
    assert "error: " in capsys.readouterr().err
    assert __main__.main(words(world, stick, "plan", *asked(), "--format", "zzz")) == 1
    assert "--format zzz: not in the new layout" in capsys.readouterr().err


def test_another_layout_than_the_boards_is_noticed(world: World, stick: Path) -> None:
    from boardwright.repartition import ubootenv

    wrong = SHIPPED.replace("12M(rootfs),4M(soc)", "8M(rootfs),8M(soc)")
    with world.device.open("r+b") as file:
        file.seek(ENVIRONMENT)
        file.write(ubootenv.make({"bootargs": f"root=/dev/mmcblk0p10 blkdevparts={wrong}"}))
    medium = Medium(world.device, stick)
    with pytest.raises(Refused, match="rootfs has 8388608 bytes and the file system in it 12582912"):
        run(medium, JOB)
    medium.close()


def test_nothing_is_said_of_the_init_that_does_not_exist() -> None:
    assert (Path(__file__).parents[2] / "boardwright/repartition/rescue-init").stat().st_mode & 0o100
    assert __main__.INIT == STICK_INIT
