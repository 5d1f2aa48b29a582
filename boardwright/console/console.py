"""A console: from power-on to a shell within one budget, then commands with answers that can be trusted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from boardwright.console import shell
from boardwright.console.channel import Channel, Clock
from boardwright.console.errors import (
    BoardFailed,
    CommandTimeout,
    ConsoleError,
    ConsoleGarbled,
    ConsoleSilent,
    ConsoleSlow,
    LoginRefused,
)
from boardwright.console.patterns import (
    LOADER_PROMPT,
    LOGIN_PROMPT,
    PASSWORD_PROMPT,
    SHELL_PROMPT,
    TIMED_OUT,
    Finding,
    Severity,
    Stage,
    bounded,
)
from boardwright.console.shell import Result
from boardwright.console.transcript import Transcript
from boardwright.console.transport import Port
from boardwright.console.watch import Watch
from boardwright.errors import BoardwrightError

_QUIET = 1.0
"""Seconds without a byte before a prompt is believed: getty flushes what is typed while it starts."""
_NUDGE = 10.0
"""Seconds of quiet after which a board that runs its kernel is sent an Enter."""
_ROOT_WAIT = 40.0
"""Seconds for a root device to appear; the slowest known, USB disks and eMMC with retries, take some ten."""
_ECHO = 4.0
"""Seconds for a typed line to come back; 200 characters at 9600 baud take 0.2 s, an emulator is slower."""
_LAST_WORDS = 3.0
"""Seconds to go on listening after a fatal line: a panic's call trace follows it."""
_TRIES = 8
_BUSY = 2.0
_MOST_LOGINS = 5
_AUTOMATIC_LOGIN = "(automatic login)"
_GARBLED_SHARE = 0.2
_CTRL_C, _CTRL_U = "\x03", "\x15"

_PROBE = "echo bw-$((6*7))-$0"
_PROBED = bounded(r"(^|\n)bw-42-sh\n")


@dataclass(frozen=True, slots=True)
class BootReport:
    """A boot that reached the shell: seconds to each milestone, and what was seen on the way."""

    seconds: float
    milestones: dict[str, float]
    findings: tuple[Finding, ...]


class Console:
    """One board's console. Not for two threads.

    ``silence``: seconds without a byte after which a board that had spoken counts as stuck.
    ``slowdown``: how many times slower than it should the board runs now, as an emulated one does on a busy
    host; limits of silence grow with it, and from :data:`_BUSY` on a mere timeout is not the board's fault.
    """

    def __init__(
        self,
        port: Port,
        *,
        transcript: Transcript | None = None,
        user: str = "root",
        password: str | None = None,
        silence: float = 120.0,
        slowdown: Callable[[], float] = lambda: 1.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self.watch = Watch()
        self.channel = Channel(port, transcript or Transcript(None), self.watch, clock)
        self._user, self._password, self._silence = user, password, silence
        self._slowdown = slowdown
        self._number = 0
        self._logins = 0

    @property
    def stage(self) -> Stage:
        return self.watch.stage

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.channel.close()

    # from power-on to the shell

    def boot(self, budget: float) -> BootReport:
        """Follow the board to a shell; ``budget`` in seconds covers loader, kernel, login and shell together.

        Raises ``BoardFailed`` with the first cause when the board cannot go on, and a ``ConsoleError``
        when cable, port, host or credentials are at fault.
        """
        end = self.channel.clock() + budget
        nudged = self.channel.clock()
        while self.stage is not Stage.SHELL:
            self.channel.listen(min(_QUIET, max(end - self.channel.clock(), 0.01)))
            if (fatal := self.watch.fatal) is not None:
                raise self._failed(fatal)
            if self.channel.clock() >= end:
                raise self._out_of_time(budget)
            if self.channel.quiet_for >= _QUIET and self._answer_prompt():
                continue
            if self.channel.silent_for > self._patience():
                raise self._fell_silent()
            patience = _NUDGE if self.stage >= Stage.KERNEL else self._silence / 2
            if min(self.channel.quiet_for, self.channel.clock() - nudged) > patience:
                nudged = self.channel.clock()
                self.channel.write("\n")  # a prompt may have been broken by a message, or be older than we
        return BootReport(self.channel.seconds, dict(self.watch.milestones), tuple(self.watch.findings))

    def _patience(self) -> float:
        """Seconds of silence allowed: few once the kernel waits for a root that does not come."""
        waiting = any(finding.name == "no root device" for finding in self.watch.findings)
        early = "systemd" not in self.watch.milestones
        limit = min(self._silence, _ROOT_WAIT) if waiting and early else self._silence
        return limit * max(1.0, self._slowdown())

    def _answer_prompt(self) -> bool:
        """React to the prompt the board is waiting at, if it is one; true when something was done."""
        unread = self.channel.unread
        if (times := unread.count(_AUTOMATIC_LOGIN)) > _MOST_LOGINS:
            raise BoardFailed(
                f"the board logged in by itself {times} times, and each session ended before a shell",
                hint="does the root have the package login, and the user a shell?",
            )
        tail = unread[-200:]
        if LOADER_PROMPT.search(tail):
            raise self._failed(None, "the loader stopped at its own prompt and did not boot")
        if LOGIN_PROMPT.search(tail):
            self.watch.stage = max(self.stage, Stage.LOGIN)
            self._log_in()
        elif PASSWORD_PROMPT.search(tail):
            self._give_password()
        elif SHELL_PROMPT.search(tail) and self.stage is not Stage.LOADER:
            self._enter_shell()
        else:
            return False
        return True

    def _log_in(self) -> None:
        self._logins += 1
        if self._logins > _MOST_LOGINS:
            raise LoginRefused(
                f"the board refused the user {self._user!r} {_MOST_LOGINS} times",
                hint="give the user and password that the image has (local.yaml)",
            )
        self.channel.discard()
        if self._type(self._user):
            self.channel.write("\n")
        else:
            self.channel.write(_CTRL_U + "\n")

    def _give_password(self) -> None:
        self.channel.discard()
        if self._password is None and self._logins >= _MOST_LOGINS:
            raise LoginRefused(
                f"the board wants a password for {self._user!r}, and none was given",
                hint="give the password that local.yaml set, or log in by hand with invoke qemu",
            )
        self.channel.write((self._password or "") + "\n", secret=self._password is not None)
        self.channel.settle(_QUIET, _ECHO)

    def _enter_shell(self) -> None:
        """At what looks like a shell's prompt: try our own shell; when it is none, nothing is lost."""
        self.channel.discard()
        if not self._type(shell.ENTER):
            self.channel.write(_CTRL_C)
            self.channel.settle(_QUIET, _ECHO)
            self.channel.write("stty echo\n")  # the other reason for no echo
            self.channel.settle(_QUIET, _ECHO)
            return
        self.channel.write("\n")
        self.channel.settle(_QUIET, _ECHO)
        if all(self._line(text) for text in shell.SETTINGS) and self._probe():
            for text in shell.FUNCTIONS:
                if not self._line(text):
                    raise self._unusable(f"the shell did not take the line {text!r}")
            self.watch.stage = Stage.SHELL
            self.run("true", 60)

    def _probe(self) -> bool:
        """Whether it is our own shell that answers, and not an echo or an image of a prompt."""
        for _ in range(_TRIES):
            if self._type(_PROBE):
                self.channel.write("\n")
                if self.channel.find([_PROBED], _ECHO):
                    return True
            self._resync()
        return False

    # typing

    def _type(self, text: str) -> bool:
        """Type without Enter; true when the echo came back as it was typed."""
        self.channel.write(text)
        return self.channel.find([bounded(re.escape(text[-400:]))], _ECHO + len(text) / 500) is not None

    def _line(self, text: str) -> bool:
        """Type a line until its echo is right, then Enter, and wait for our prompt."""
        for _ in range(_TRIES):
            if self._type(text):
                self.channel.write("\n")
                if self.channel.find([shell.PROMPT], _ECHO) or self._resync():
                    return True
            else:
                self._resync()
        return False

    def _resync(self) -> bool:
        """Drop a half-typed line and get a fresh prompt; bounded, tolerant of anything in between."""
        for _ in range(_TRIES):
            self.channel.write(_CTRL_C)
            if self.channel.find([shell.PROMPT], _ECHO / 2):
                self.channel.settle(0.1, 1.0)
                self.channel.discard()
                return True
        return False

    # commands

    def run(self, command: str, timeout: float = 30.0) -> Result:
        """Run a command in the board's shell; ``timeout`` in seconds of the board's silence about its end.

        The command runs once. Raises ``CommandTimeout`` when it does not end but the shell still answers,
        ``BoardFailed`` when the board died of it, ``ConsoleError`` when no sound answer could be had.
        """
        if self.stage is not Stage.SHELL:
            raise ConsoleError(f"expected the shell, but the board is at stage '{self.stage}'")
        self._number += 1
        self.watch.pause()
        try:
            result = self._ask(command, timeout)
        except BoardwrightError:
            self.watch.resume(keep=True)
            raise
        self.watch.resume(keep=False)
        return result

    def _ask(self, command: str, timeout: float) -> Result:
        number, asked = self._number, False
        for attempt in range(_TRIES):
            coded = attempt > 1
            line = shell.request(number, command, coded=coded)
            self.channel.discard()
            if not self._type(line):
                if not self._resync() and self._dead():
                    raise self._gone(command)
                continue
            self.channel.write("\n")
            if not asked:
                deadline = self.channel.clock() + timeout
                asked = True
            result = self._await(number, max(deadline - self.channel.clock(), _ECHO), coded)
            if result is not None and result.status != shell.INTERRUPTED:
                return result
            if not self._resync():
                raise self._gone(command)
            if result is not None or self.channel.clock() >= deadline:
                raise CommandTimeout(
                    f"the command {command!r} did not end within {timeout:g} s",
                    hint="the shell still answers, so the board is alive; is the limit too low?",
                )
        raise self._unusable(f"no sound answer to {command!r} in {_TRIES} attempts")

    def _await(self, number: int, seconds: float, coded: bool) -> Result | None:
        """The answer, or ``None`` when it came damaged, or is not coming."""
        end, nudge = self.channel.clock() + seconds, 5.0
        while (left := end - self.channel.clock()) > 0:
            found = self.channel.find([shell.end(number), shell.PROMPT], min(left, nudge))
            if found is None:
                if self._dead():
                    return None
                nudge *= 2
                self.channel.write("\n")  # in place of a lost Enter; else a prompt after the end, no harm
                continue
            index, before = found
            if index == 1:  # a prompt with no end before it: the frame is damaged
                return None
            sum_, status = self.channel.matched().groups()
            return shell.answer(number, before + "\n", sum_, status, coded=coded) if sum_ else None
        return None

    # what went wrong

    def _dead(self) -> bool:
        """A fatal line was seen, and nothing since for longer than any trace takes to print."""
        fatal = [f for f in self.watch.suspects if f.severity is Severity.FATAL]
        return bool(fatal) and self.channel.quiet_for >= 5 * _LAST_WORDS

    def _gone(self, command: str) -> BoardwrightError:
        """The shell does not answer any more: the board's fault if it said so, else the line's."""
        suspects = [f for f in self.watch.suspects if f.severity > Severity.NOTE]
        if suspects:
            return self._failed(suspects[0], f"the board failed during {command!r}")
        return self._unusable(f"the console does not answer any more, since {command!r}")

    def _unusable(self, message: str) -> ConsoleError:
        kind = ConsoleGarbled if self.channel.quiet_for < self._silence else ConsoleError
        return kind(message, hint="see the transcript; check cable, adapter, baud rate and other readers")

    def _failed(self, fatal: Finding | None, message: str = "") -> BoardFailed | ConsoleSlow:
        """Listen to the last words, then name the first cause."""
        self.channel.settle(_LAST_WORDS, 2 * _LAST_WORDS)
        findings = tuple(self.watch.findings) + tuple(self.watch.suspects)
        cause = self.watch.first_cause() or fatal
        if (busy := self._slowdown()) >= _BUSY and (cause is None or cause.name in TIMED_OUT):
            reason = message or f"the board did not reach a shell (stage {self.stage}): {cause}"
            return ConsoleSlow(
                f"{reason}; the host is {busy:.0f} times overloaded, so this says nothing about the board",
                hint="run it again on a quieter host",
            )
        if fatal is not None and (cause is None or cause.severity is Severity.NOTE):
            cause = fatal
        parts = [message or f"the board did not reach a shell (stage {self.stage})"]
        if cause is not None:
            parts.append(str(cause))
        if fatal is not None and fatal != cause:
            parts.append(f"then {fatal}")
        notes = [f for f in findings if f.severity is Severity.NOTE and f != cause]
        hint = f"before that: {notes[0]}" if notes else None
        return BoardFailed("; ".join(parts), findings=findings, hint=hint)

    def _fell_silent(self) -> BoardwrightError:
        if not self.channel.heard:
            return ConsoleSilent(
                f"not one byte in {self.channel.quiet_for:.0f} s since power-on",
                hint="is the board powered, the cable on the right pins, the port the right one?",
            )
        if self._is_garbled():
            return self._garbled()
        return self._failed(
            None,
            f"the board fell silent for {self.channel.silent_for:.0f} s at stage {self.stage}, "
            f"after {self.watch.last_line[:120]!r}",
        )

    def _out_of_time(self, budget: float) -> BoardwrightError:
        if not self.channel.heard:
            return self._fell_silent()
        if self._is_garbled():
            return self._garbled()
        if (cause := self.watch.first_cause()) is not None and cause.severity > Severity.NOTE:
            return self._failed(cause, f"no shell within {budget:.0f} s")
        return ConsoleSlow(
            f"no shell within the budget of {budget:.0f} s; stage {self.stage}, "
            f"last line {self.watch.last_line[:120]!r}",
            hint="the board was still talking: give a larger budget, or a less busy host",
        )

    def _is_garbled(self) -> bool:
        """Whether nothing of what came made sense."""
        share = self.channel.garbled / max(self.channel.characters, 1)
        return self.stage is Stage.OFF and share > _GARBLED_SHARE

    def _garbled(self) -> ConsoleGarbled:
        return ConsoleGarbled(
            f"{self.channel.garbled} of {self.channel.characters} characters cannot be decoded, "
            "and no line is one of a loader or a kernel",
            hint="the baud rate is probably wrong: compare with console.baud in board.yaml",
        )
