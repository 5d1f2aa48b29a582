"""Every script with every fault gives the outcome of the right name, from the right culprit."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_faults import CASES, SCRIPTS, SHELL, console

from boardwright.console import bootscript
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed, ConsoleError
from boardwright.console.simulator import Script
from boardwright.console.strategy import Strategy, to_shell
from boardwright.errors import ExitStatus, InputError

LAB = {"port lost", "garbled", "console unusable", "slow", "wrong baud", "off", "login refused"}


def outcome(board: Console, script: Script, strategy: Strategy) -> BoardFailed | ConsoleError | None:
    """The error that ended boot or commands; else the answers were the board's own, each of them."""
    try:
        to_shell(board, 3600, strategy)
        answers = {command: board.run(command, 300) for command in script.answers}
    except (BoardFailed, ConsoleError) as error:
        return error
    assert answers == script.answers
    return None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_outcome(path: Path, name: str, tmp_path: Path) -> None:
    script, case = bootscript.load(path), CASES[name]
    with console(script, case, root=tmp_path) as board:
        error = outcome(board, case.change(script), case.strategy)
        state = SHELL if error is None else error.state
        assert state in case.expected, error
        if error is not None:
            assert (error.exit_status is ExitStatus.HOST) == (state in LAB), error
            assert error.lines or state in LAB, "no line shows it"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_fatal_line_ends_the_wait_at_once(path: Path) -> None:
    with console(bootscript.load(path), CASES["panic"]) as board:
        with pytest.raises(BoardFailed) as caught:
            board.boot(3600)
        assert board.channel.seconds < 30
        assert any("Kernel panic" in line for line in caught.value.lines)


def test_wrong_baud_is_named_long_before_the_silence_is_over() -> None:
    with console(bootscript.load(SCRIPTS[0]), CASES["wrong baud"]) as board:
        with pytest.raises(ConsoleError, match="wrong baud rate") as caught:
            board.boot(3600)
        assert board.channel.seconds < 90
    assert "1500000" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["[]", "boot: 5", "boot: []\nbord: x\n", "boot: [[a, b]]\n", "boot: [\n"])
def test_a_script_that_is_none_is_refused_by_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="not a board's script"):
        bootscript.load(path)
