"""The countdown is stopped whatever it looks like; commands are checked; bootargs hold for one boot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from board_faults import SCRIPTS, Case, console, loader

from boardwright.console import bootscript
from boardwright.console.cable import Faults
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed, ConsoleError
from boardwright.console.loader import Autoboot, interrupt
from boardwright.console.patterns import Stage

ROCK, MAIX = (next(p for p in SCRIPTS if p.stem == name) for name in ("rock5b", "maix4"))


def board(path: object, case: Case | None = None) -> Console:
    return console(bootscript.load(path), case or Case())  # type: ignore[arg-type]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_from_power_on_to_another_bootargs_to_the_shell_in_one_budget(path: object) -> None:
    with board(path) as target:
        prompt = interrupt(target, 60)
        assert target.stage is Stage.LOADER
        assert prompt.environment("bootdelay") in ("1", "2")
        prompt.boot("console=ttyS2,1500000n8 init=/bin/sh")
        target.boot(300)
        assert target.stage is Stage.SHELL


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"deaf_for": 3}, None),
        ({"countdown": ""}, None),
        ({"stop": "\x03"}, Autoboot(stop="ctrl-c")),
        ({"stop": "sesame", "countdown": "Autoboot in 2 seconds"}, Autoboot(password="sesame")),
        ({"seconds": -1}, None),
    ],
    ids=["first keys lost", "says nothing", "ctrl-c only", "password", "stopped already"],
)
def test_the_countdown_is_stopped(change: dict[str, object], how: Autoboot | None) -> None:
    with board(ROCK, Case(change=loader(**change))) as target:
        assert interrupt(target, 60, how).environment("board_name") == "rock5b"


@pytest.mark.parametrize("how", [None, Autoboot("enter"), Autoboot("ctrl-c"), Autoboot(password="sesame")])
def test_keys_that_waited_in_the_receiver_come_out_behind_the_prompt(how: Autoboot | None) -> None:
    # As QEMU's and the boards' own UARTs do: 16 to 256 keys typed while U-Boot looked elsewhere.
    change = loader(fifo=120, stop="sesame" if how and how.password else "")
    with board(ROCK, Case(change=change)) as target:
        assert interrupt(target, 60, how).environment("board_name") == "rock5b"
        assert target.channel.seconds < 20


@pytest.mark.parametrize("change", [{"seconds": 0}, {"stop": "sesame"}], ids=["0 s", "password not known"])
def test_a_countdown_that_cannot_be_stopped_is_named(change: dict[str, object]) -> None:
    with board(ROCK, Case(change=loader(**change))) as target:
        with pytest.raises(BoardFailed, match="kernel started before") as caught:
            interrupt(target, 60)
        assert caught.value.state == "autoboot not stopped"
        assert target.channel.seconds < 20


def test_a_command_that_fails_or_is_not_known_is_a_failure_with_its_words() -> None:
    with board(ROCK, Case(change=loader(failing={"load mmc 1 0": "** Bad device\n"}))) as target:
        prompt = interrupt(target, 60)
        with pytest.raises(BoardFailed, match="Bad device"):
            prompt.run("load mmc 1 0")
        with pytest.raises(BoardFailed, match="Unknown command 'frobnicate'"):
            prompt.run("frobnicate")
        assert prompt.run("load mmc 1 0", check=False) == "** Bad device"
        assert prompt.environment("nothing") is None


def test_a_line_that_loses_bytes_gives_the_right_value_or_a_named_error() -> None:
    right = 0
    for seed in range(30):
        case = Case(cable=Faults(drop=0.003))
        with console(bootscript.load(ROCK), case, seed) as target:
            try:
                prompt = interrupt(target, 120)
                prompt.set("bootargs", "root=/dev/mmcblk1p2 rw")
                name = prompt.environment("board_name")
            except ConsoleError:
                continue
            assert name == "rock5b"
            right += 1
    assert right >= 15


def test_nothing_heard_is_a_silent_lab() -> None:
    case = Case(change=lambda s: replace(s, boot=(), loader=None, reaches_shell=False))
    with board(ROCK, case) as target, pytest.raises(ConsoleError, match="not one byte"):
        interrupt(target, 30)
