"""A board that exists only as text, and a bad cable: what the console is tested against, and replayed on.

:class:`ScriptedBoard` speaks as a board does from power-on to a shell and answers commands from a table.
:class:`BoardPort` is a cable to it with a clock of its own, so that minutes of boot take milliseconds.
:class:`BadCable` wraps any port and drops, doubles and flips bytes, cuts reads small and stalls, all from
a seed. :func:`serve` puts a board behind a real file descriptor, pty or socket.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import itertools
import math
import os
import re
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from boardwright.console import shell
from boardwright.console.cable import BadCable, Faults
from boardwright.console.shell import Result
from boardwright.console.simulated_loader import After, LoaderScript, SimulatedLoader

__all__ = ["BadCable", "BoardPort", "Faults", "LoaderScript", "Script", "ScriptedBoard", "frame", "serve"]


@dataclass(frozen=True, slots=True)
class Script:
    """What a board does. Times are seconds after the line before."""

    boot: tuple[tuple[float, str], ...]
    """Chunks up to, and not with, the login prompt; a board without more to say just stops."""
    reaches_shell: bool = True
    hostname: str = "rock5b"
    autologin: bool = True
    user: str = "root"
    password: str | None = None
    answers: Mapping[str, Result] = field(default_factory=dict)
    deadly: Mapping[str, str] = field(default_factory=dict)
    """Commands after which the board prints a text and never speaks again."""
    resets: Mapping[str, str] = field(default_factory=dict)
    """Commands after which the board prints a text and starts anew."""
    hanging: frozenset[str] = frozenset()
    """Commands that do not end until Ctrl-C."""
    echo: bool = True
    echo_loses: int = 0
    """Every so many echoed characters one is not echoed; 0: none is lost."""
    newline: str = "\r\n"
    """What the board's line driver makes of a line feed."""
    escapes: bool = False
    """Bracketed paste, colours and a cursor report around prompts, as bash and systemd send them."""
    login_flush: bool = False
    """The first name typed is swallowed in part, as when getty opens the port again."""
    loader: LoaderScript | None = None
    chatter: tuple[str, ...] = ()
    """Kernel lines that break into prompts and outputs, one at a time, again and again."""
    lag: float = 0.0
    """Seconds from an Enter to what the shell prints, and from that to its prompt; the echo has none."""
    session: Callable[[str], str] | None = None
    """What the login shell prints for a line, when others than our own shell log in."""


class ScriptedBoard:
    """The state of such a board. ``feed`` and ``take`` carry a clock reading; nothing here waits."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._queue: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._state = "booting"
        self._typed = self._user_given = ""
        self._last = 0.0
        self._prompts = 0
        self._put, self._can_put = "", False
        self._number, self._result = -1, Result("", 0)
        self._flush_left = 1 if script.login_flush else 0
        self._echo, self._echoed = script.echo, 0
        self._chatter = itertools.cycle(script.chatter)
        self._window = (0.0, 0.0)
        self._loader: SimulatedLoader | None = None
        self._waiting = ""
        self._busy = 0.0
        self._cmdline = ""
        self._ready = math.inf
        self._power_on()

    def power_cycle(self, now: float) -> None:
        """Off and on: what was not yet said is never said, and the board starts from its first line."""
        self._queue, self._last, self._echo = [], max(self._last, now), self._script.echo
        self._start_anew()

    def _start_anew(self) -> None:
        self._state, self._ready, self._typed, self._cmdline = "booting", math.inf, "", ""
        self._power_on()

    def _power_on(self) -> None:
        loader = self._script.loader
        if loader is None:
            self._play(self._script.boot, self._last)
            return
        self._loader, self._waiting = SimulatedLoader(loader), ""
        at = self._last
        for pause, text in self._script.boot[: loader.at]:
            at += pause
            self._say(text, at)
        if loader.seconds < 0:  # stopped before anyone listened
            self._state, self._window = "loader", (0.0, 0.0)
            self._say(f"\n{loader.prompt}", at)
            return
        self._window = (at, at + loader.seconds)
        self._say(f"{loader.countdown} {loader.seconds} ", at)
        for second in range(loader.seconds):
            self._say(f"\b\b\b {loader.seconds - second - 1} ", at + second + 1)
        self._say("\n", at + loader.seconds)
        self._play(self._script.boot[loader.at :], at + loader.seconds)

    def _play(self, boot: tuple[tuple[float, str], ...], at: float) -> None:
        """The rest of the boot from ``at``, up to a session when the script reaches one."""
        for pause, text in boot:
            at += pause
            self._say(text, at)
            if self._cmdline and "Booting Linux" in text:
                self._say(f"[    0.000000] Kernel command line: {self._cmdline}\n", at)
        self._ready = at + 0.5
        if self._script.reaches_shell:
            self._open_session(self._ready)

    def next_at(self) -> float | None:
        """When the board speaks next, if it does by itself."""
        return self._queue[0][0] if self._queue else None

    def take(self, now: float) -> bytes:
        """What the board has said by now."""
        said = []
        while self._queue and self._queue[0][0] <= now:
            said.append(heapq.heappop(self._queue)[2])
        return "".join(said).encode()

    def feed(self, data: bytes, now: float) -> None:
        """What the board is told. Before anyone reads it, it is lost, as on a port not yet open."""
        if self._state == "dead":
            return
        if self._state == "booting" or now < self._ready:
            self._feed_loader(data, now)
            return
        if not self._script.reaches_shell:
            return
        self._last = now
        for character in data.decode("latin-1"):
            self._key(character)

    def _feed_loader(self, data: bytes, now: float) -> None:
        loader = self._script.loader
        if loader is None:
            return
        if self._state == "loader":
            self._last = now
            for character in data.decode("latin-1"):
                self._key(character)
            return
        typed = data.decode("latin-1")
        if now < self._window[0]:
            self._waiting = (self._waiting + typed)[: loader.fifo]
        in_time = self._window[0] <= now < self._window[1]
        if in_time and self._loader is not None and self._loader.stopped_by(typed):
            self._queue = [entry for entry in self._queue if entry[0] <= now]
            self._state, self._last, self._ready, self._typed = "loader", now, math.inf, ""
            self._say(f"\n{loader.prompt}")
            for character in self._waiting:
                self._key(character)

    def _say(self, text: str, at: float | None = None) -> None:
        when = self._last if at is None else at
        heapq.heappush(self._queue, (when, next(self._order), text.replace("\n", self._script.newline)))

    def _key(self, key: str) -> None:
        if key in "\r\n":
            self._say("\n")
            line, self._typed = self._typed, ""
            self._enter(line)
        elif key == "\x03":
            self._typed = ""
            if self._busy > self._last:  # the command has not ended
                self._queue = [entry for entry in self._queue if entry[0] <= self._last]
                self._busy, self._result = 0.0, Result("", shell.INTERRUPTED)
            if self._state == "hanging":
                self._state, self._result = "sh", Result("", shell.INTERRUPTED)
            self._say("^C\n")
            self._prompt()
        elif key == "\x15":
            self._typed = ""
            self._say("\n")
        else:
            if self._state == "login" and self._flush_left and self._typed:
                self._flush_left, self._typed = 0, ""  # getty flushes what was typed so far
            self._typed += key
            if self._echo and self._state != "password":
                self._echoed += 1
                if not self._script.echo_loses or self._echoed % self._script.echo_loses:
                    self._say(key)

    def _open_session(self, at: float | None = None) -> None:
        self._typed = ""
        self._state = "bash" if self._script.autologin else "login"
        self._prompt(at)

    def _prompt(self, at: float | None = None) -> None:
        texts = {
            "bash": f"{self._script.user}@{self._script.hostname}:~# ",
            "login": f"\n{self._script.hostname} login: ",
            "password": "Password: ",
            "loader": self._script.loader.prompt if self._script.loader else "",
            "sh": shell.PROMPT_TEXT if self._script.echo or self._echo else "# ",
        }
        text = texts.get(self._state, "")
        if self._script.escapes and self._state == "bash":
            text = f"\x1b[?2004h\x1b]0;{text}\x07\x1b[01;32m{text}\x1b[00m\x1b[6n"
        if self._script.chatter and self._state in ("bash", "sh"):
            self._prompts += 1
            text = f"{text}{next(self._chatter)}\n" if self._prompts % 3 else text
        self._say(text, at)

    def _enter(self, line: str) -> None:
        if self._state == "loader":
            self._loader_line(line)
        elif self._state == "login":
            free = self._script.password is None and line == self._script.user
            self._state = "bash" if free else "password"
            self._user_given = line
            self._prompt()
        elif self._state == "password":
            right = self._user_given == self._script.user and line == (self._script.password or "")
            self._say("" if right else "\nLogin incorrect\n")
            self._state = "bash" if right else "login"
            self._prompt()
        elif self._state == "bash":
            if line.endswith("echo bw-$((6*7))-$0"):
                self._say("bw-42-bash\n" if line.startswith("echo") else "bash: exec: not found\n")
            elif self._script.session is not None and line != shell.ENTER:
                self._say(self._script.session(line))
            self._state = "sh" if line == shell.ENTER else "bash"
            self._echo = self._echo or line == "stty echo"
            self._prompt()
        elif self._state == "sh":
            typed_at = self._last
            self._last = max(self._busy, typed_at) + self._script.lag
            self._shell(line)
            self._busy, self._last = self._last, typed_at

    def _loader_line(self, line: str) -> None:
        loader = self._script.loader
        assert loader is not None
        assert self._loader is not None
        said, after = self._loader.line(line)
        if after is After.KERNEL:
            self._cmdline = self._loader.cmdline
            self._state, self._window, self._ready = "booting", (0.0, 0.0), math.inf
            self._play(self._script.boot[loader.at :], self._last)
        elif after is After.RESET:
            self._start_anew()
        else:
            self._say(said)
            self._prompt()

    def _shell(self, line: str) -> None:
        if line == "stty echo":
            self._echo = True
        elif line == "echo bw-$((6*7))-$0":
            self._say("bw-42-sh\n")
        elif match := re.fullmatch(r"(bwc?) (\d+) ([0-9a-f]{16}) '(.*)'", line):
            kind, number, digest, quoted = match.groups()
            self._command(kind == "bwc", int(number), digest, quoted.replace("'\\''", "'"))
        elif line == shell.NEWLINE:
            self._say("=1\n")
        elif line == shell.CLEAR:
            self._put = ""
            self._say("=0\n")
        elif line == shell.PIECE:
            self._can_put = True
        elif self._can_put and (match := re.fullmatch(r"_p (\d+) '(.*)'", line)):
            if int(match.group(1)) == len(self._put):
                self._put += match.group(2).replace("'\"$n\"'", "\n").replace("'\\''", "'")
            self._say(f"={len(self._put)}\n")
        elif line == 'printf %s "$c"|sha256sum':
            self._say(hashlib.sha256(self._put.encode()).hexdigest() + "  -\n")
        elif match := re.fullmatch(r"_x (\d+) ([0-9a-f]{16})", line):
            self._run_put(int(match.group(1)), match.group(2))
        elif match := re.fullmatch(r"_g (\d+)", line):
            self._block(int(match.group(1)))
        elif line and line not in (*shell.SETTINGS, *shell.FUNCTIONS, *shell.SET_UP, 'eval "$c"'):
            self._say(f"sh: {line[:20]}: not found\n")
        self._last += self._script.lag
        self._prompt()

    def _command(self, coded: bool, number: int, digest: str, command: str) -> None:
        if self._execute(number, digest, command):
            self._say(frame(number, self._result, coded, noise=next(self._chatter, None)))

    def _run_put(self, number: int, digest: str) -> None:
        if self._execute(number, digest, self._put):
            data = self._result.output.encode()
            sum_ = shell.digest(f"{number} {self._result.status}\n".encode() + data)
            self._say(f"\n{number} {self._result.status} {len(data)} {sum_}=\n")

    def _block(self, number: int) -> None:
        data = self._result.output.encode()[number * shell.BLOCK : (number + 1) * shell.BLOCK]
        text = f"{number} {base64.b64encode(data).decode()}"
        self._say(f"\n{text} {shell.digest((text + chr(10)).encode())}=\n")

    def _execute(self, number: int, digest: str, command: str) -> bool:
        """Whether there is a result to tell: once for a number, and only what arrived whole."""
        if shell.digest(command.encode()) != digest:
            self._say(f"\nbw-{number}-refused\n")
            return False
        if number != self._number:
            self._number = number
            if command in self._script.hanging:
                self._state = "hanging"
                return False
            if command in self._script.deadly:
                self._say(self._script.deadly[command])
                self._state = "dead"
                return False
            if command in self._script.resets:
                self._say(self._script.resets[command])
                self._start_anew()
                return False
            unknown = Result(f"sh: 1: eval: {command.split()[0]}: not found\n", 127)
            known = {"true": Result("", 0), **self._script.answers}
            if self._cmdline:
                known["cat /proc/cmdline"] = Result(self._cmdline + "\n", 0)
            self._result = known.get(command, unknown)
        return True


def frame(number: int, result: Result, coded: bool = False, noise: str | None = None) -> str:
    """The answer as the shell functions print it, ``noise`` being a kernel line that breaks in."""
    data = result.output.encode()
    text = base64.encodebytes(data).decode() if coded else result.output
    lines = [f"{number}|{line}" for line in text.removesuffix("\n").split("\n")] if text else []
    if noise is not None:
        lines.insert(len(lines) // 2, noise)
    sum_ = shell.digest(f"{number} {result.status}\n".encode() + data)
    return "\n".join(["", f"bw-{number}-begin", *lines, "", f"bw-{number}-end {sum_} {result.status}", ""])


class BoardPort:
    """A perfect cable to a scripted board, with a clock that moves only by waiting."""

    def __init__(self, board: ScriptedBoard) -> None:
        self._board = board
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def read(self, seconds: float) -> bytes:
        end = self.now + max(seconds, 1e-6)  # less would be lost to rounding, and time would stand still
        if data := self._board.take(self.now):
            return data
        following = self._board.next_at()
        self.now = end if following is None else min(end, following)
        return self._board.take(self.now)

    def write(self, data: bytes) -> None:
        self.now += len(data) * 1e-5
        self._board.feed(data, self.now)

    def close(self) -> None:
        return None


def serve(board: ScriptedBoard, descriptor: int, seconds: float, speed: float = 1.0) -> None:
    """Be a board on a file descriptor until the other end closes, or ``seconds`` pass.

    ``speed``: how many of the board's seconds pass in one second.
    """
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        if data := board.take(passed * speed):
            os.write(descriptor, data)
        ready, _, _ = select.select([descriptor], [], [], 0.01)
        if ready:
            try:
                told = os.read(descriptor, 4096)
            except OSError:  # a pty whose other end is closed
                return
            if not told:
                return
            board.feed(told, (time.monotonic() - start) * speed)
