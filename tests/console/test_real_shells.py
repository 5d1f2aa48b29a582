"""The shell functions, run by real shells on a real terminal: what the simulator claims, proven."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from boardwright.console.console import Console
from boardwright.console.errors import CommandTimeout, ConsoleLost
from boardwright.console.shell import Result
from boardwright.console.simulator import BadCable, Faults


class Pty:
    """A port to a program on a pseudo-terminal; reads wait for at most a tenth of what a board may take."""

    def __init__(self, *command: str) -> None:
        self.child, self._descriptor = pty.fork()
        if self.child == 0:
            os.environ.update(PS1="root@here:~# ", TERM="vt220", ENV="")
            os.execvp(command[0], command)

    def read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        try:
            return os.read(self._descriptor, 4096) if ready else b""
        except OSError:
            raise ConsoleLost("the shell ended") from None

    def write(self, data: bytes) -> None:
        os.write(self._descriptor, data)

    def close(self) -> None:
        os.close(self._descriptor)
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


@contextmanager
def shell(*command: str, faults: Faults | None = None) -> Iterator[Console]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    port = Pty(*command)
    with Console(port if faults is None else BadCable(port, faults, 5)) as console:
        console.boot(900)  # no promise of speed: a host may be slow, and each lost byte costs a timeout
        yield console


SHELLS = [("sh", "-i"), ("bash", "--norc", "-i"), ("busybox", "sh", "-i")]


@pytest.mark.parametrize("command", SHELLS, ids=lambda command: command[0])
def test_a_real_shell_answers_exactly(command: tuple[str, ...]) -> None:
    with shell(*command) as console:
        assert console.run("echo hi; exit 3") == Result("hi\n", 3)
        assert console.run("printf abc") == Result("abc", 0)
        assert console.run("echo it\\'s \"$((6 * 7))\" 'a  b'") == Result("it's 42 a  b\n", 0)
        assert console.run("printf '\\033[1mx\\r\\ny\\007'").output == "\x1b[1mx\r\ny\x07"
        assert console.run("cat").output == ""  # its input is empty, it does not eat our typing
        assert console.run("seq 2000").output.split() == [str(n) for n in range(1, 2001)]


def test_a_command_runs_once_however_often_its_answer_is_asked_for(tmp_path: object) -> None:
    counter = f"{tmp_path}/count"
    with shell("sh", "-i", faults=Faults(drop=0.001)) as console:
        for _ in range(4):
            console.run(f"echo once >> {counter}; seq 60")
        assert console.run(f"cat {counter}").output == "once\n" * 4


@pytest.mark.e2e
@pytest.mark.parametrize("command", SHELLS, ids=lambda command: command[0])
def test_a_real_shell_answers_through_a_line_that_loses_one_byte_in_a_hundred(
    command: tuple[str, ...],
) -> None:
    with shell(*command, faults=Faults(drop=0.01)) as console:
        assert console.run("printf 'it''s\\t%s\\n' 42; exit 3") == Result("its\t42\n", 3)
        assert console.run("seq 40").output.split() == [str(n) for n in range(1, 41)]


def test_a_command_that_does_not_end_is_interrupted() -> None:
    with shell("sh", "-i") as console:
        with pytest.raises(CommandTimeout):
            console.run("sleep 600", 5)
        assert console.run("echo alive").line == "alive"


def test_two_shells_on_one_board_keep_their_answers_apart() -> None:
    with shell("sh", "-i") as one, shell("sh", "-i") as other:
        slow = threading.Thread(target=lambda: answers.append(one.run("echo one; sleep 1; echo end", 60)))
        answers: list[Result] = []
        slow.start()
        while slow.is_alive():
            assert other.run("seq 60").output.split() == [str(n) for n in range(1, 61)]
        assert answers == [Result("one\nend\n", 0)]
