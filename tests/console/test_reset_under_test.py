"""A board that starts anew while a command runs is named so; one that only quotes a boot log is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from board_faults import SCRIPTS
from console_boards import GOOD, LOADER, console

from boardwright.console import bootscript
from boardwright.console.cable import Faults
from boardwright.console.errors import BoardFailed
from boardwright.console.shell import Result
from boardwright.console.simulator import Script
from boardwright.errors import ExitStatus

QUOTED = "".join(text for _, text in LOADER)


def scripts() -> list[Script]:
    return [replace(bootscript.load(path), resets={"stress": ""}) for path in SCRIPTS]


@pytest.mark.parametrize("script", scripts(), ids=[path.stem for path in SCRIPTS])
@pytest.mark.parametrize("autologin", [True, False])
def test_a_watchdog_that_bites_during_a_command_is_a_reset_under_test(
    script: Script, autologin: bool
) -> None:
    with console(replace(script, autologin=autologin), user=script.user, password=script.password) as board:
        board.boot(600)
        asked = board.channel.seconds
        with pytest.raises(BoardFailed, match="failed during 'stress'") as caught:
            board.run("stress", 3600)
        assert caught.value.state == "reset under test"
        assert caught.value.exit_status is ExitStatus.PRODUCT
        assert board.channel.seconds - asked < 180, "found when the board showed it, not when time was up"
        assert "unexpected reset at" in caught.value.message
        assert caught.value.lines


def test_a_panic_before_the_reset_is_the_cause() -> None:
    said = "[  99.0] Kernel panic - not syncing: hard LOCKUP\n"
    with console(replace(GOOD, resets={"stress": said})) as board:
        board.boot(600)
        with pytest.raises(BoardFailed, match="hard LOCKUP") as caught:
            board.run("stress", 3600)
        assert caught.value.state == "kernel panic"


def test_a_log_that_is_read_aloud_is_no_reset() -> None:
    script = replace(GOOD, answers={"cat boot.log": Result(QUOTED, 0)})
    with console(script) as board:
        board.boot(600)
        assert board.run("cat boot.log") == Result(QUOTED, 0)
        assert board.run("true").status == 0


def test_a_bad_line_does_not_hide_it() -> None:
    states = []
    for seed in range(10):
        with console(replace(GOOD, resets={"stress": ""}), Faults(drop=0.001), seed) as board:
            board.boot(900)
            with pytest.raises(BoardFailed) as caught:
                board.run("stress", 600)
            states.append(caught.value.state)
    assert set(states) == {"reset under test"}
