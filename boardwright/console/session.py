"""Commands in the board's shell, with answers that are the board's or none.

On a good line a command is one line and its answer one frame. When that fails again and again, the careful
way is taken, and kept: request and answer go over in pieces of a few bytes, each acknowledged, the whole
under one digest. It is slow, and gets through a line that loses one byte in a hundred.
"""

from __future__ import annotations

import base64
import re

from boardwright.console import shell
from boardwright.console.channel import Channel
from boardwright.console.errors import CommandTimeout
from boardwright.console.matcher import bounded
from boardwright.console.patterns import SHELL_PROMPT, Severity
from boardwright.console.shell import Result
from boardwright.console.typist import ECHO, TRIES, Typist
from boardwright.console.verdict import LAST_WORDS, Verdict
from boardwright.console.watch import Watch
from boardwright.errors import BoardwrightError

_PROBE = "echo bw-$((6*7))-$0"
_PROBED = bounded(r"(^|\n)bw-42-(\S{1,40})\n")
_FAST_TRIES = 4
_CAREFUL_ROUNDS = 4


class Session:
    """Our own shell on the board. ``careful``: whether the line turned out to be a bad one."""

    def __init__(self, channel: Channel, watch: Watch, typist: Typist, verdict: Verdict) -> None:
        self.channel, self.watch, self.typist, self.verdict = channel, watch, typist, verdict
        self.careful = False
        self._careful_ready = False
        self._number = 0

    # setting up

    def set_up(self) -> bool:
        """At a prompt after ``exec sh``: settings and functions; false when it is not our shell.

        Who answers is asked first, and ours is waited for only once it was set: where ``exec sh`` was lost
        it never comes. A line that was good so far gets them on a few long lines, another one by one.
        """
        prompt, *settings = shell.SETTINGS
        self.typist.prompt = SHELL_PROMPT
        who = self.typist.ask(_PROBE, _PROBED, TRIES)
        if who is None or who.group(2) != "sh" or not self._set_prompt(prompt):
            return False
        if not self.typist.damaged and all(self.typist.line(text, 2) for text in shell.SET_UP):
            return True
        if not all(self.typist.line(text) for text in settings):
            return False
        self.careful = self.typist.damaged > 4
        if self.careful or not all(self.typist.line(text, 2) for text in shell.FUNCTIONS):
            self._set_up_carefully()
        return True

    def _set_prompt(self, line: str) -> bool:
        """Until the line is entered there is another prompt, then ours, which a message may break."""
        for _ in range(TRIES):
            if self.channel.clock() >= self.typist.deadline:
                break
            self.typist.prompt = SHELL_PROMPT
            if self.typist.type(line):
                self.channel.write("\n")
                self.typist.prompt = shell.PROMPT
                if self.channel.find([shell.PROMPT], self.typist.patience) or self.typist.resync(4):
                    return True
            else:
                self.typist.resync(2)
        return False

    def _set_up_carefully(self) -> None:
        self.careful = True
        if not self._define_piece() or self.typist.ask(shell.NEWLINE, _length(1)) is None:
            raise self.verdict.unusable("the shell took none of the lines that put a text together")
        if not self._put(shell.setup()) or not self.typist.line('eval "$c"', 3 * TRIES):
            raise self.verdict.unusable("the shell did not take our functions")
        self._careful_ready = True

    def _define_piece(self) -> bool:
        """The one function that everything else is put together with; it is there when it answers."""
        for _ in range(3 * TRIES):
            if self.channel.clock() >= self.typist.deadline:
                break
            if self.typist.type(shell.PIECE):
                self.channel.write("\n")
                self.channel.find([shell.PROMPT], self.typist.patience)
                if self.typist.ask("_p 0 ''", bounded(r"(^|\n)=\d{1,6}\n"), 4) is not None:
                    return True
            self.typist.resync(2)
        return False

    def _put(self, text: str) -> bool:
        """Have ``text`` in the board's variable ``c``, and know it: lengths on the way, then a digest."""
        expected = shell.digest(text.encode())
        for _ in range(_CAREFUL_ROUNDS):
            if self.typist.ask(shell.CLEAR, _length(0)) is None:
                return False
            if not all(self.typist.ask(line, _length(total)) for total, line in shell.pieces(text)):
                if self._dead():
                    return False
                continue
            if self.typist.ask('printf %s "$c"|sha256sum', bounded(rf"(^|\n){expected}"), TRIES):
                return True
        return False

    # commands

    def run(self, command: str, timeout: float) -> Result:
        """See :meth:`boardwright.console.console.Console.run`."""
        shell.request(0, command)  # what a line cannot carry is refused before anything is typed
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
        deadline = self.channel.clock() + timeout
        for attempt in range(0 if self.careful else _FAST_TRIES):
            coded = attempt > 1
            self.channel.discard()
            if not self.typist.type(shell.request(number, command, coded=coded)):
                if not self.typist.resync() and self._dead():
                    raise self.verdict.gone(command)
                continue
            self.channel.write("\n")
            if not asked:
                deadline, asked = self.channel.clock() + timeout, True
            result = self._await(number, max(deadline - self.channel.clock(), ECHO), coded)
            if result is not None and result.status != shell.INTERRUPTED:
                return result
            self._back(command)
            if result is not None:  # the board itself says that it was interrupted, or it is not known
                raise self._timeout(command, timeout)
        return self._ask_carefully(number, command, timeout)

    def _ask_carefully(self, number: int, command: str, timeout: float) -> Result:
        if not self._careful_ready:
            self._set_up_carefully()
        self.careful = True
        for _ in range(_CAREFUL_ROUNDS):
            if not self._put(command):
                raise self.verdict.gone(command)
            found = self._head(number, command, timeout)
            if found is None:
                continue
            status, size, sum_ = found
            if int(status) == shell.INTERRUPTED:
                raise self._timeout(command, timeout)
            output = self._blocks(int(size))
            result = None if output is None else shell.whole(number, status, output, sum_)
            if result is not None:
                return result
            if self._dead():
                raise self.verdict.gone(command)
        raise self.verdict.unusable(f"no sound answer to {command!r}, not even in pieces")

    def _head(self, number: int, command: str, timeout: float) -> tuple[str, str, str] | None:
        """Run it and hear status, size and digest. ``None``: what arrived was not what was put together."""
        line, pattern = f"_x {number} {shell.digest(command.encode())}", shell.head(number)
        for _ in range(3 * TRIES):
            self.channel.discard()
            if not self.typist.type(line):
                self._back(command)
                continue
            self.channel.write("\n")
            end, nudge = self.channel.clock() + max(timeout, 3 * ECHO), 3.0
            while (left := end - self.channel.clock()) > 0:
                found = self.channel.find([pattern, shell.PROMPT], min(left, nudge))
                if found is None:
                    if self._dead():
                        raise self.verdict.gone(command)
                    nudge = min(2 * nudge, 10.0)
                    self.channel.write("\n")
                    continue
                if found[0] == 1:
                    break
                status, size, sum_ = self.channel.matched().groups()
                self.typist.pass_prompt()
                return (status, size, sum_) if sum_ else None
            else:
                self._back(command)
                timeout = 0.0  # asked again, it tells what came of it: an interruption, or its end
        return None

    def _blocks(self, size: int) -> bytes | None:
        output = b""
        for number in range(-(-size // shell.BLOCK)):
            for _ in range(2 * TRIES):
                match = self.typist.ask(f"_g {number}", shell.block(number))
                if match is None:
                    return None
                if shell.block_is_sound(number, *match.groups()):
                    output += base64.b64decode(match.group(1))
                    break
            else:
                return None
        return output

    def _back(self, command: str) -> None:
        if not self.typist.resync():
            raise self.verdict.gone(command)

    def _timeout(self, command: str, timeout: float) -> CommandTimeout:
        return CommandTimeout(
            f"the command {command!r} did not end within {timeout:g} s",
            hint="the shell still answers, so the board is alive; is the limit too low?",
        )

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
            self.typist.pass_prompt()
            return shell.answer(number, before + "\n", sum_, status, coded=coded) if sum_ else None
        return None

    def _dead(self) -> bool:
        """The board has started anew, or a fatal line was seen and nothing since for longer than a trace."""
        if self.watch.reset_under_test is not None:
            return True
        fatal = [f for f in self.watch.suspects if f.severity is Severity.FATAL]
        return bool(fatal) and self.channel.quiet_for >= 5 * LAST_WORDS


def _length(number: int) -> re.Pattern[str]:
    return bounded(rf"(^|\n)={number}\n")
