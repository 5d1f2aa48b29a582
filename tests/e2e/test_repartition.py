"""The emulated board is repartitioned over its console, and QEMU is killed while it is at it.

Evidence: emulated. The stick is the one that `invoke repartition --stick` makes; U-Boot's part of the
vendor's is modelled (emmc_lab.py). What is killed is QEMU itself, with the guest's memory and all that it
had not written.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import emmc_lab
import pytest
from emmc_lab import SHIPPED, Board, Report, copy_sparse, listen, read_report

from boardwright.console.console import Console
from boardwright.console.loader import Autoboot
from boardwright.console.transfer import push
from boardwright.console.transport import SerialPort
from boardwright.repartition import drive, parts, stick, ubootenv

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # the kernel is compiled, where it is not in the store yet
TARGET = SHIPPED.replace("24576M(rootfs)", "26624M(rootfs)")
JOB = drive.Job(to=TARGET, stick_root=stick.ROOT)
ENTER = Autoboot("enter")
_CUT = """import sys, time
sys.path.insert(0, "/usr/lib/boardwright")
from repartition import __main__ as main, medium
last, count = int(sys.argv[1]), 0
def event():
    global count
    count += 1
    if count == last:
        print("CUT-NOW", flush=True)
        time.sleep(3600)
class Cut(medium.Medium):
    def write(self, offset, data):
        super().write(offset, data)
        event()
    def sync(self):  # cut before it is what a cut after the last write is
        super().sync()
        event()
main.Medium = Cut
status = main.main(sys.argv[2:])
print("CUT-COUNT", count, "STATUS", status, "CUT-END", flush=True)
"""
"""Stands still at an event of the eMMC, a write or a sync; then QEMU is killed."""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The board as it came, with the stick in it."""
    return emmc_lab.built(tmp_path_factory.mktemp("emmc"))


def copied(board: Board, directory: Path) -> Board:
    for name in ("emmc", "stick", "flash"):
        copy_sparse(board.directory / name, directory / name)
    return Board(directory, board.root, board.files)


def at_rescue(port: SerialPort) -> Console:
    console = Console(port)
    drive.to_rescue(console, JOB, 240, ENTER)
    return console


def run_until(board: Board, event: int) -> int:
    """Begin the run and kill QEMU at this event; 0, or how many events there are when they were fewer."""
    with board.powered() as (_, port):
        console = at_rescue(port)
        push(console, _CUT.encode(), "/run/cut.py")
        words = f"python3 /run/cut.py {event} run {JOB.words()}"
        console.run(f"setsid {words} >/dev/console 2>&1 </dev/null &", 60)
        text = listen(port, "CUT-", 300)
        while "\n" not in text.partition("CUT-")[2]:  # the line may come in pieces
            text += listen(port, "\n", 300)
        if "CUT-NOW" in text:
            return 0
        assert "STATUS 0" in text, text
        return int(text.split("CUT-COUNT ")[1].split()[0])


def go_on(board: Board) -> None:
    """A run that did not get far begins anew, as a user would have it."""
    with board.powered() as (_, port):
        console = at_rescue(port)
        drive.carry_out(console, "resume" if drive.interrupted(console) else f"run {JOB.words()}", 300, print)
        console.run("sync")


def assert_sound(board: Board, layout: str) -> None:
    """The host's e2fsck finds nothing, and the environment names the layout."""
    with (board.directory / "emmc").open("rb") as file:
        file.seek(emmc_lab.ENVIRONMENT)
        variables = ubootenv.read(file.read(ubootenv.SIZE))
    assert parts.of_bootargs(variables["bootargs"]) == layout
    assert parts.root_of(variables["bootargs"]) == "/dev/mmcblk0p10"
    for part in parts.parse(layout, "mmcblk0", emmc_lab.SIZE):
        if part.name in ("param", "rootfs", "soc", "opt"):
            where = f"{board.directory}/emmc?offset={part.offset}"
            done = subprocess.run(["e2fsck", "-f", "-n", where], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{part.name}: {done.stdout}"


def assert_boots(report: Report, board: Board, layout: str, boots: int) -> None:
    """With this layout, every file, and what the board wrote in the ``boots`` starts it had."""
    assert report.layout == layout
    assert report.faults == []
    assert report.files == board.files
    assert report.boots == boots


def test_the_board_is_repartitioned_over_its_console(shipped: Board, tmp_path: Path) -> None:
    board = copied(shipped, tmp_path)
    assert_boots(board.report(), board, SHIPPED, 1)
    with board.powered() as (_, port):
        console = at_rescue(port)
        text, planned = drive.plan(console, JOB)
        assert "resumes" in text
        assert [o["name"] for o in planned["operations"] if o["kind"] == "restore"] == ["soc", "opt"]
        drive.carry_out(console, f"run {JOB.words()}", 300, print)
        drive.restart(console)
        report = read_report(listen(port, "BOARD-END", 120))
    assert_boots(report, board, TARGET, 2)


def test_killed_in_the_middle_it_resumes_by_itself(shipped: Board, tmp_path: Path) -> None:
    board = copied(shipped, tmp_path)
    assert run_until(board, 9) == 0
    report = board.report()
    assert report.resumed
    assert_boots(report, board, TARGET, 1)
    assert_sound(board, TARGET)


def test_killed_before_the_guard_it_boots_as_before_and_begins_anew_when_told(
    shipped: Board, tmp_path: Path
) -> None:
    board = copied(shipped, tmp_path)
    assert run_until(board, 2) == 0
    report = board.report()
    assert not report.resumed
    assert_boots(report, board, SHIPPED, 1)
    with board.powered() as (_, port):
        assert drive.interrupted(at_rescue(port))  # at the prompt: the stick did not go on by itself
    go_on(board)
    assert_boots(board.report(), board, TARGET, 2)
    assert_sound(board, TARGET)


def test_killed_at_every_write_and_sync_of_the_emmc(shipped: Board, tmp_path: Path) -> None:
    directory = tmp_path / "count"
    directory.mkdir()
    events = run_until(copied(shipped, directory), 10**6)
    assert events > 10
    seen = []
    order = list(range(1, events + 1))
    random.Random(1).shuffle(order)  # a run that is broken off has seen a bit of everything
    for event in order:
        directory = tmp_path / "one"
        directory.mkdir(exist_ok=True)
        board = copied(shipped, directory)
        assert run_until(board, event) == 0
        report, boots = board.report(), 1
        seen.append("resumed" if report.resumed else "before" if report.layout == SHIPPED else "planned")
        print(f"killed at event {event} of {events}: {seen[-1]}", flush=True)
        if report.layout == SHIPPED:
            assert_boots(report, board, SHIPPED, 1)
            go_on(board)
            report, boots = board.report(), 2
        assert_boots(report, board, TARGET, boots)
        assert_sound(board, TARGET)
    assert set(seen) == {"before", "resumed", "planned"}
