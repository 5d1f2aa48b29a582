"""A console: from power-on to a shell within one budget, then commands with answers that can be trusted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from boardwright.console import shell
from boardwright.console.budget import Budget
from boardwright.console.channel import Channel, Clock, Pace
from boardwright.console.errors import (
    BoardFailed,
    ConsoleError,
    ConsoleGarbled,
    LoginRefused,
)
from boardwright.console.patterns import (
    LOADER_PROMPT,
    LOGIN_PROMPT,
    PASSWORD_PROMPT,
    SHELL_PROMPT,
    Finding,
    Stage,
)
from boardwright.console.session import Session
from boardwright.console.shell import Result
from boardwright.console.transcript import Transcript
from boardwright.console.transport import Port
from boardwright.console.typist import CTRL_C, CTRL_U, ECHO, Typist
from boardwright.console.verdict import Verdict
from boardwright.console.watch import Watch

_QUIET = 1.0
"""Seconds without a byte before a prompt is believed: getty flushes what is typed while it starts."""
_PROMPT_QUIET = 0.3
"""The same for a shell's prompt: nobody flushes there, and what is typed counts only when it came back."""
_LEAST_WAIT = 0.01
"""Seconds; a difference of two times may be so small that waiting for it does not move a clock."""
_NUDGE = 10.0
"""Seconds of quiet after which a board that runs its kernel is sent an Enter."""
_ROOT_WAIT = 40.0
"""Seconds for a root device to appear; the slowest known, USB disks and eMMC with retries, take some ten."""
_LOADER_QUIET = 5.0
"""Seconds before a ``#`` is a prompt though no kernel was seen: U-Boot draws its progress with them."""
_MOST_LOGINS = 8
_MOST_SESSIONS = 5
_AUTOMATIC_LOGIN = "(automatic login)"


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
    ``pace``: for a board that loses what comes too fast.
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
        pace: Pace | None = None,
    ) -> None:
        self.watch = Watch()
        self.channel = Channel(port, transcript or Transcript(None), self.watch, clock, pace)
        self._user, self._password, self._silence = user, password, silence
        self._slowdown = slowdown
        self.verdict = Verdict(self.channel, self.watch, silence, slowdown)
        self._typist = Typist(self.channel)
        self._session = Session(self.channel, self.watch, self._typist, self.verdict)
        self._logins = 0
        self._asked_to_boot = self._answered = False

    @property
    def stage(self) -> Stage:
        return self.watch.stage

    @property
    def careful(self) -> bool:
        """Whether the line turned out to be so bad that all goes over it in small pieces."""
        return self._session.careful

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
        shared = Budget(budget, self.channel.clock)
        nudged = self.channel.clock()
        while self.stage is not Stage.SHELL:
            self.channel.listen(min(self._until_quiet(), max(shared.left, 0.01)))
            if (fatal := self.watch.fatal) is not None:
                raise self.verdict.failed(fatal)
            if self.channel.plausibility.garbage:
                raise self.verdict.garbled()
            if shared.spent:
                raise self.verdict.out_of_time(budget)
            if self._at_rest() and self._answer_within(shared):
                continue
            if self.channel.silent_for > self._patience():
                raise self.verdict.fell_silent()
            patience = _NUDGE if self._listens() else self._silence / 2
            if min(self.channel.quiet_for, self.channel.clock() - nudged) > patience:
                nudged = self.channel.clock()
                self.channel.write("\n")  # a prompt may have been broken by a message, or be older than we
        return BootReport(self.channel.seconds, dict(self.watch.milestones), tuple(self.watch.findings))

    def _until_quiet(self) -> float:
        """Seconds to the next moment at which :meth:`_at_rest` can change, if nothing comes."""
        quiet = self.channel.quiet_for
        wait = next((limit - quiet for limit in (_PROMPT_QUIET, _QUIET) if quiet < limit), _QUIET)
        return max(wait, _LEAST_WAIT)

    def _at_rest(self) -> bool:
        """Whether the board has been quiet for so long that it may be waiting for us."""
        quiet = self.channel.quiet_for
        return quiet >= _QUIET or (quiet >= _PROMPT_QUIET and self._at_a_shell())

    def _at_a_shell(self) -> bool:
        """Whether the last that was said looks like a shell's prompt, where it cannot be the loader's."""
        return self.stage is not Stage.LOADER and SHELL_PROMPT.search(self.channel.tail(200)) is not None

    def _listens(self) -> bool:
        """Whether an Enter can do good and no harm: there is no countdown to come that it would stop.

        A board that was up before us may stand at a prompt that lost a byte: a line that does not end.
        """
        if self.stage >= Stage.KERNEL or "autoboot" in self.watch.milestones or self._answered:
            return True
        return self.stage is Stage.OFF and self.channel.heard and not self.channel.tail(1).endswith("\n")

    def _answer_within(self, budget: Budget) -> bool:
        """As :meth:`_answer_prompt`; what is typed again and again ends with the budget."""
        self._typist.deadline = budget.end
        try:
            answered = self._answer_prompt()
        except ConsoleGarbled:
            if budget.spent:
                raise self.verdict.out_of_time(budget.seconds) from None
            raise
        finally:
            self._typist.deadline = math.inf
        self._answered |= answered
        return answered

    def _patience(self) -> float:
        """Seconds of silence allowed: few once the kernel waits for a root that does not come."""
        waiting = any(finding.name == "no root device" for finding in self.watch.findings)
        early = "systemd" not in self.watch.milestones
        limit = min(self._silence, _ROOT_WAIT) if waiting and early else self._silence
        return limit * max(1.0, self._slowdown())

    def _answer_prompt(self) -> bool:
        """React to the prompt the board is waiting at, if it is one; true when something was done."""
        unread = self.channel.unread
        if (times := unread.count(_AUTOMATIC_LOGIN)) > _MOST_SESSIONS:
            raise BoardFailed(
                f"the board logged in by itself {times} times, and each session ended before a shell",
                hint="does the root have the package login, and the user a shell?",
            )
        tail = self.channel.tail(200)
        if LOADER_PROMPT.search(tail):
            self.watch.stage = max(self.watch.stage, Stage.LOADER)
            if self._asked_to_boot or self.watch.first_cause() is not None:
                raise self.verdict.failed(
                    None, "the loader stopped at its own prompt and did not boot", "loader prompt"
                )
            self._asked_to_boot = True  # a byte of noise stops a countdown, or we came to it stopped
            self.channel.discard()
            self.channel.write("boot\n")
            return True
        if LOGIN_PROMPT.search(tail):
            self.watch.stage = max(self.stage, Stage.LOGIN)
            self._log_in()
        elif PASSWORD_PROMPT.search(tail):
            self._give_password()
        elif self._at_a_shell() or (SHELL_PROMPT.search(tail) and self.channel.quiet_for >= _LOADER_QUIET):
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
        if self._typist.type(self._user) or self._logins > _MOST_LOGINS // 2:  # some do not echo
            self.channel.write("\n")
        else:
            self.channel.write(CTRL_U + "\n")

    def _give_password(self) -> None:
        self.channel.discard()
        if self._password is None and self._logins >= _MOST_LOGINS:
            raise LoginRefused(
                f"the board wants a password for {self._user!r}, and none was given",
                hint="give the password that local.yaml set, or log in by hand with invoke qemu",
            )
        self.channel.write((self._password or "") + "\n", secret=self._password is not None)
        self.channel.settle(_QUIET, ECHO)

    def _enter_shell(self) -> None:
        """At what looks like a shell's prompt: try our own shell; when it is none, nothing is lost."""
        self.channel.discard()
        if not self._typist.type(shell.ENTER):
            self.channel.write(CTRL_C)
            self.channel.settle(_QUIET, ECHO)
            self.channel.write("stty echo\n")  # the other reason for no echo
            self.channel.settle(_QUIET, ECHO)
            return
        self.channel.write("\n")
        if not self.channel.find([SHELL_PROMPT], ECHO):
            self.channel.write("\n")  # the first may be lost; a second does no harm
        self.channel.settle(_PROMPT_QUIET, ECHO)
        if self._session.set_up():
            self.watch.stage = Stage.SHELL
            self.run("true", 60)

    def run(self, command: str, timeout: float = 30.0) -> Result:
        """Run a command in the board's shell; ``timeout`` in seconds of the board's silence about its end.

        The command runs once. Raises ``CommandTimeout`` when it does not end but the shell still answers,
        ``BoardFailed`` when the board died of it, ``ConsoleError`` when no sound answer could be had.
        """
        if self.stage is not Stage.SHELL:
            raise ConsoleError(f"expected the shell, but the board is at stage '{self.stage}'")
        return self._session.run(command, timeout)
