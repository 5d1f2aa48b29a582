"""Typing on a line that may lose bytes: each line is entered only when its echo came back as it was typed."""

from __future__ import annotations

import math
import re

from boardwright.console import shell
from boardwright.console.channel import Channel
from boardwright.console.matcher import bounded

ECHO = 4.0
"""Seconds at most for a typed line to come back; 200 characters at 9600 baud take 0.2 s, an emulator more."""
_LEAST_ECHO = 0.5
TRIES = 8
CTRL_C, CTRL_U = "\x03", "\x15"


def _echoes(text: str) -> list[str]:
    """The echo, and its shortest end that is nowhere else in it.

    The end without the whole means that the echo is over and was damaged: no need to wait for more of it.
    """
    whole = text[-400:]
    end = next((whole[-n:] for n in range(4, len(whole)) if whole.count(whole[-n:]) == 1), whole)
    return [whole] if end == whole else [whole, end]


class Typist:
    """``damaged``: how many lines did not come back as they were typed.

    ``prompt``: of who listens now. ``deadline``: a reading of the channel's clock, at which lines are given
    up that may be asked again.
    """

    def __init__(self, channel: Channel, prompt: re.Pattern[str] = shell.PROMPT) -> None:
        self.channel, self.prompt = channel, prompt
        self.deadline = math.inf
        self.damaged = 0
        self._slowest = 0.0
        self._measured = 0

    @property
    def patience(self) -> float:
        """Seconds to wait for an echo: twenty times the slowest that came, once some did."""
        return ECHO if self._measured < 5 else min(max(20 * self._slowest, _LEAST_ECHO), ECHO)

    def type(self, text: str) -> bool:
        """Type without Enter; true when the echo came back as it was typed."""
        since, patience = self.channel.clock(), self.patience + len(text) / 500
        self.channel.write(text)
        found = self.channel.find([bounded(re.escape(part)) for part in _echoes(text)], patience)
        if found is not None:
            self._slowest = max(self._slowest, self.channel.clock() - since)
            self._measured += 1
        if found is None or found[0] > 0:
            self.damaged += 1
            return False
        return True

    def ask(self, text: str, answer: re.Pattern[str], tries: int = 3 * TRIES) -> re.Match[str] | None:
        """Type a line that may be entered twice without harm, until ``answer`` comes before the prompt."""
        for _ in range(tries):
            if self.channel.clock() >= self.deadline:
                break
            if self.type(text):
                self.channel.write("\n")
                found = self.channel.find([answer, self.prompt], self.patience)
                if found is not None and found[0] == 0:
                    match = self.channel.matched()
                    self.pass_prompt()
                    return match
            self.resync(2)
        return None

    def line(self, text: str, tries: int = TRIES) -> bool:
        """Type a line that may be entered twice without harm, until its echo is right and the prompt follows.

        Where only a fresh prompt could be had, Enter may have been lost: the line is typed once more and
        then believed.
        """
        unsure = False
        for left in reversed(range(tries)):
            if self.channel.clock() >= self.deadline:
                break
            right = self.type(text)
            if right:
                self.channel.write("\n")
                if self.channel.find([self.prompt], self.patience):
                    return True
            if self.resync() and right:
                if unsure or not left:
                    return True
                unsure = True
        return unsure

    def pass_prompt(self) -> None:
        """Have the prompt that follows an answer go by; or it may be lost.

        The terminal echoes what is typed before a slow shell has printed that prompt. Coming after the echo
        it would be taken for the end of the next command, which then were interrupted.
        """
        self.channel.find([self.prompt], self.patience)

    def resync(self, tries: int = 3 * TRIES) -> bool:
        """Drop a half-typed line and get a fresh prompt; bounded, tolerant of anything in between."""
        for _ in range(tries):
            self.channel.write(CTRL_C)
            if self.channel.find([self.prompt], max(self.patience / 2, _LEAST_ECHO)):
                self.channel.settle(0.1, 1.0)
                self.channel.discard()
                return True
        return False
