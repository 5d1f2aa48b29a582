"""One byte lost at the worst place costs seconds of the board's time, and never the whole budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from console_boards import ANSWERS, GOOD

from boardwright.console import shell
from boardwright.console.console import Console
from boardwright.console.errors import ConsoleSlow
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard

UP = replace(GOOD, boot=())
"""A board that was up before anyone listened: no milestone tells its stage."""


@dataclass
class Losing:
    """A cable that loses what is named, once: of ``typed`` or ``said`` the part, by what is left of it."""

    port: BoardPort
    typed: tuple[str, str] = ("", "")
    said: tuple[str, str] = ("", "")
    times: int = 1
    _sent: str = ""

    def read(self, seconds: float) -> bytes:
        data = self.port.read(seconds).decode()
        if self.times and self.said[0] and self.said[0] in data:
            self.times -= 1
            data = data.replace(*self.said, 1)
        return data.encode()

    def write(self, data: bytes) -> None:
        text = data.decode()
        before, self._sent = self._sent, (self._sent + text)[-200:]
        whole, left = self.typed
        if self.times and whole and self._sent.endswith(whole):
            self.times -= 1
            text = left.removeprefix(before[len(before) + len(text) - len(whole) :])
        self.port.write(text.encode())

    def close(self) -> None:
        return None


def seconds(script: Script, budget: float = 900.0, **loss: object) -> float:
    """The board's seconds until a shell that answers."""
    port = BoardPort(ScriptedBoard(script))
    losing = Losing(port, **loss)  # type: ignore[arg-type]
    with Console(losing, clock=port.clock) as board:
        board.boot(budget)
        assert not losing.times, "nothing was lost, so this shows nothing"
        assert board.run("uname -r") == ANSWERS["uname -r"] == Result("6.12.0-test\n", 0)
    return port.now


@pytest.mark.parametrize(
    "loss",
    [
        {"typed": ("exec sh\n", "exec sh")},
        {"typed": ("exec sh", "exe sh")},
        {"typed": ("PS1='bw# ' PS2=", "PS1='bw#  PS2=")},
        {"typed": ("PS1='bw# ' PS2=\n", "PS1='bw# ' PS2=")},
        {"typed": ("echo bw-$((6*7))-$0\n", "echo bw-$((6*7))-$0")},
        {"said": ("root@rock5b:~# ", "root@rock5b:~ ")},
        {"said": ("root@rock5b:~# ", "root@rock5b:~#x")},
        {"said": ("bw-42-sh", "bw-42-s")},
        {"said": ("bw# ", "bw ")},
        {"said": ("\n", ""), "times": 3},
    ],
    ids=str,
)
def test_a_board_that_is_up_is_had_in_a_minute(loss: dict[str, object]) -> None:
    assert seconds(UP, **loss) < 60


class Noting(ScriptedBoard):
    """A board that keeps the lines it got."""

    def __init__(self, script: Script) -> None:
        self.lines: list[str] = []
        super().__init__(script)

    def _enter(self, line: str) -> None:
        self.lines.append(line)
        super()._enter(line)


@pytest.mark.parametrize("line", shell.SET_UP)
def test_a_line_whose_enter_is_lost_is_entered_again_and_not_taken_for_done(line: str) -> None:
    board = Noting(UP)
    port = BoardPort(board)
    with Console(Losing(port, typed=(f"{line[-150:]}\n", line[-150:])), clock=port.clock) as console:
        console.boot(60)
        assert line in board.lines
        assert not console.careful


def test_the_budget_also_ends_a_shell_that_takes_nothing() -> None:
    """Typing again and again is inside the budget, and its end is called slow: something was heard."""
    with pytest.raises(ConsoleSlow, match="budget of 40 s"):
        seconds(UP, budget=40.0, said=("bw-42-sh", "bw-42"), times=10**6)
