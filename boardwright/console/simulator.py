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
import os
import random
import re
import select
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from boardwright.console import shell
from boardwright.console.errors import ConsoleLost
from boardwright.console.shell import Result
from boardwright.console.transport import Port


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
    hanging: frozenset[str] = frozenset()
    """Commands that do not end until Ctrl-C."""
    echo: bool = True
    escapes: bool = False
    """Bracketed paste, colours and a cursor report around prompts, as bash and systemd send them."""
    login_flush: bool = False
    """The first name typed is swallowed in part, as when getty opens the port again."""
    chatter: tuple[str, ...] = ()
    """Kernel lines that break into prompts and outputs, one at a time, again and again."""


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
        self._put = ""
        self._number, self._result = -1, Result("", 0)
        self._flush_left = 1 if script.login_flush else 0
        self._echo = script.echo
        self._chatter = itertools.cycle(script.chatter)
        at = 0.0
        for pause, text in script.boot:
            at += pause
            self._say(text, at)
        self._ready = at + 0.5
        if script.reaches_shell:
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
        if self._state == "dead" or now < self._ready or not self._script.reaches_shell:
            return
        self._last = now
        for character in data.decode("latin-1"):
            self._key(character)

    def _say(self, text: str, at: float | None = None) -> None:
        when = self._last if at is None else at
        heapq.heappush(self._queue, (when, next(self._order), text.replace("\n", "\r\n")))

    def _key(self, key: str) -> None:
        if key in "\r\n":
            self._say("\n")
            line, self._typed = self._typed, ""
            self._enter(line)
        elif key == "\x03":
            self._typed = ""
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
                self._say(key)

    def _open_session(self, at: float | None = None) -> None:
        self._state = "bash" if self._script.autologin else "login"
        self._prompt(at)

    def _prompt(self, at: float | None = None) -> None:
        texts = {
            "bash": f"{self._script.user}@{self._script.hostname}:~# ",
            "login": f"\n{self._script.hostname} login: ",
            "password": "Password: ",
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
        if self._state == "login":
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
            self._state = "sh" if line == shell.ENTER else "bash"
            self._echo = self._echo or line == "stty echo"
            self._prompt()
        elif self._state == "sh":
            self._shell(line)

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
        elif match := re.fullmatch(r"_p (\d+) '(.*)'", line):
            if int(match.group(1)) == len(self._put):
                self._put += match.group(2).replace("'\"$n\"'", "\n").replace("'\\''", "'")
            self._say(f"={len(self._put)}\n")
        elif line == 'printf %s "$c"|sha256sum':
            self._say(hashlib.sha256(self._put.encode()).hexdigest() + "  -\n")
        elif match := re.fullmatch(r"_x (\d+) ([0-9a-f]{16})", line):
            self._run_put(int(match.group(1)), match.group(2))
        elif match := re.fullmatch(r"_g (\d+)", line):
            self._block(int(match.group(1)))
        elif line and line not in (*shell.SETTINGS, *shell.FUNCTIONS, shell.PIECE, 'eval "$c"'):
            self._say(f"sh: {line[:20]}: not found\n")
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
            unknown = Result(f"sh: 1: eval: {command.split()[0]}: not found\n", 127)
            known = {"true": Result("", 0), **self._script.answers}
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


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of bytes (0 to 1) in both directions, and habits of a bad cable."""

    drop: float = 0.0
    double: float = 0.0
    flip: float = 0.0
    largest_read: int = 4096
    lost_after: int | None = None
    """Bytes received after which the port goes away."""


class BadCable:
    """Wraps a port. The same seed makes the same faults, so a failure can be looked at again."""

    def __init__(self, port: Port, faults: Faults, seed: int) -> None:
        self._port, self._faults = port, faults
        self._random = random.Random(seed)
        self._held = b""
        self._received = 0

    def read(self, seconds: float) -> bytes:
        if not self._held:
            self._held = self._spoil(self._port.read(seconds))
        data, self._held = self._held[: self._faults.largest_read], self._held[self._faults.largest_read :]
        self._received += len(data)
        if self._faults.lost_after is not None and self._received > self._faults.lost_after:
            raise ConsoleLost("the serial port went away: unplugged by the test")
        return data

    def write(self, data: bytes) -> None:
        self._port.write(self._spoil(data))

    def close(self) -> None:
        self._port.close()

    def _spoil(self, data: bytes) -> bytes:
        faults, spoiled = self._faults, bytearray()
        for byte in data:
            chance = self._random.random()
            if chance < faults.drop:
                continue
            if chance < faults.drop + faults.double:
                spoiled.append(byte)
            elif chance < faults.drop + faults.double + faults.flip:
                byte ^= 1 << self._random.randrange(8)
            spoiled.append(byte)
        return bytes(spoiled)


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
