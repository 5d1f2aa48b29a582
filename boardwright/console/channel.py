"""The middle layer: one reader that records, cleans, watches and matches; nothing below knows of shells.

pexpect's searcher does the matching. Its own reading loop is not used, because a replayed board has a
clock of its own, and because reading, recording and watching for failures must be one act.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence

import pexpect
import pexpect.expect
import pexpect.spawnbase

from boardwright.console.patterns import LONGEST_MATCH
from boardwright.console.terminal import TerminalFilter
from boardwright.console.transcript import Event, Transcript
from boardwright.console.transport import Port
from boardwright.console.watch import Watch

Clock = Callable[[], float]
"""Seconds that only grow; ``time.monotonic`` or the clock of a simulated board."""


class Channel:
    """Text of a port, searched with bounded patterns.

    ``opened``, ``last_heard``: clock readings. ``heard``: whether any byte has come. ``garbled`` and
    ``characters`` count what could not be decoded, and all.
    """

    def __init__(self, port: Port, transcript: Transcript, watch: Watch, clock: Clock) -> None:
        self.port, self.transcript, self.watch, self.clock = port, transcript, watch, clock
        self.opened = self.last_heard = self._last_text = clock()
        self.heard = False
        self.characters = self.garbled = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._strip = TerminalFilter().feed
        self._text: pexpect.spawnbase.SpawnBase[str] = pexpect.spawnbase.SpawnBase(
            encoding="utf-8", searchwindowsize=LONGEST_MATCH
        )

    @property
    def seconds(self) -> float:
        """Since the channel was opened."""
        return self.clock() - self.opened

    @property
    def quiet_for(self) -> float:
        """Seconds since the last byte."""
        return self.clock() - self.last_heard

    @property
    def silent_for(self) -> float:
        """Seconds since the last text that is not blank: a dead board still echoes an Enter."""
        return self.clock() - self._last_text

    @property
    def unread(self) -> str:
        """What has come since the last match; it stays unread."""
        return self._text._before.getvalue()  # type: ignore[attr-defined,no-any-return]

    def write(self, text: str, *, secret: bool = False) -> None:
        data = text.encode()
        self.transcript.add(Event(self.seconds, "i", b"***" if secret else data))
        self.port.write(data)

    def find(self, patterns: Sequence[re.Pattern[str]], seconds: float) -> tuple[int, str] | None:
        """Wait for the first of ``patterns``: which, and the text before it. ``None`` when time is up.

        What is found is taken out of the stream, with all that came before it.
        """
        expecter = pexpect.expect.Expecter(self._text, pexpect.expect.searcher_re(patterns))
        end = self.clock() + seconds
        index = expecter.existing_data()
        while index is None and (left := end - self.clock()) > 0:
            if text := self._receive(left):
                index = expecter.new_data(text)
        return None if index is None else (index, str(self._text.before))

    def matched(self) -> re.Match[str]:
        """The match of the last successful :meth:`find`."""
        match = self._text.match
        assert isinstance(match, re.Match)
        return match

    def listen(self, seconds: float) -> None:
        """Read for ``seconds`` and keep what comes."""
        self.find((), seconds)

    def settle(self, quiet: float, seconds: float) -> bool:
        """Read until nothing has come for ``quiet`` seconds; false when that did not happen in time."""
        end = self.clock() + seconds
        while self.quiet_for < quiet:
            if self.clock() >= end:
                return False
            self.listen(max(min(quiet - self.quiet_for, end - self.clock()), 0.01))
        return True

    def discard(self) -> None:
        """Forget what is unread."""
        self._text.buffer = ""
        self._text._before = self._text.buffer_type()  # type: ignore[attr-defined,operator]

    def close(self) -> None:
        self.port.close()
        self.transcript.close()

    def _receive(self, seconds: float) -> str:
        data = self.port.read(seconds)
        if not data:
            return ""
        self.heard, self.last_heard = True, self.clock()
        self.transcript.add(Event(self.seconds, "o", data))
        raw = self._decode(data)
        self.characters += len(raw)
        self.garbled += raw.count("\N{REPLACEMENT CHARACTER}")
        text = self._strip(raw)
        if text.strip():
            self._last_text = self.last_heard
        self.watch.feed(text, self.seconds)
        return text
