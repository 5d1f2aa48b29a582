"""The middle layer: one reader that records, cleans, watches and matches; nothing below knows of shells.

Reading, recording and watching for failures is one act, and a replayed board has a clock of its own, so
the loop is ours; what is found is what pexpect's searcher would find (tests/console/test_matcher.py).
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boardwright.console.matcher import LONGEST_MATCH, Matcher
from boardwright.console.terminal import TerminalFilter
from boardwright.console.transcript import Event, Transcript
from boardwright.console.transport import Gap, Port
from boardwright.console.watch import Watch

if TYPE_CHECKING:
    from boardwright.schema import board

Clock = Callable[[], float]
"""Seconds that only grow; ``time.monotonic`` or the clock of a simulated board."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Sending for a receiver without flow control: ``chunk`` bytes, a pause of ``seconds``, the next."""

    chunk: int
    seconds: float

    def __post_init__(self) -> None:
        if self.chunk < 1 or not 0 < self.seconds <= 1:
            raise ValueError(f"expected 1 byte or more and a pause of 1 s at most, found {self}")


MOST_UNREAD = 8 * 2**20
"""Characters that are kept until something is found; of more, the oldest are forgotten."""


def pace_of(words: board.Console) -> Pace | None:
    """The ``pace`` of a board file's ``console``."""
    return None if words.pace is None else Pace(words.pace.chunk, words.pace.delay_ms / 1000)


class Channel:
    """Text of a port, searched with bounded patterns.

    ``opened``, ``last_heard``: clock readings. ``heard``: whether any byte has come. ``garbled`` and
    ``characters`` count what could not be decoded, and all.
    """

    def __init__(
        self, port: Port, transcript: Transcript, watch: Watch, clock: Clock, pace: Pace | None = None
    ) -> None:
        self.port, self.transcript, self.watch, self.clock = port, transcript, watch, clock
        self.pace = pace
        self.opened = self.last_heard = self._last_text = clock()
        self.heard = False
        self.gaps: list[tuple[float, str]] = []
        self.characters = self.garbled = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._strip = TerminalFilter().feed
        self.plausibility = Plausibility()
        self._unread = Unread()
        self._match: re.Match[str] | None = None

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
        return self._unread.text()

    def tail(self, characters: int) -> str:
        """The end of what is unread, without putting all of it together."""
        return self._unread.tail(characters)

    def write(self, text: str, *, secret: bool = False) -> None:
        data = text.encode()
        self.transcript.add(Event(self.seconds, "i", b"***" if secret else data))
        self.send(data)

    def send(self, data: bytes) -> None:
        """Write at the receiver's pace, and record nothing."""
        step = self.pace.chunk if self.pace else max(len(data), 1)
        for start in range(0, len(data), step):
            if self.pace and start:
                self.listen(self.pace.seconds)  # not a sleep: the echo comes meanwhile
            self.port.write(data[start : start + step])

    def find(self, patterns: Sequence[re.Pattern[str]], seconds: float) -> tuple[int, str] | None:
        """Wait for the first of ``patterns``: which, and the text before it. ``None`` when time is up.

        What is found is taken out of the stream, with all that came before it.
        """
        matcher = Matcher(patterns)
        end = self.clock() + seconds
        found = matcher.search(window := self._unread.text()) if patterns else None
        while found is None and (left := end - self.clock()) > 0:
            if (text := self._receive(left)) and patterns:
                found = matcher.search(window := self._unread.tail(LONGEST_MATCH + len(text)))
        if found is None:
            return None
        index, self._match = found
        before = self._unread.take(len(window) - self._match.start(), len(window) - self._match.end())
        return index, before

    def matched(self) -> re.Match[str]:
        """The match of the last successful :meth:`find`."""
        assert self._match is not None
        return self._match

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
        self._unread = Unread()

    def close(self) -> None:
        self.port.close()
        self.transcript.close()

    def _receive(self, seconds: float) -> str:
        try:
            data = self.port.read(seconds)
        except Gap as gap:
            self._mark_gap(str(gap))
            return ""
        if not data:
            return ""
        self.heard, self.last_heard = True, self.clock()
        self.transcript.add(Event(self.seconds, "o", data))
        self.plausibility.feed(data)
        raw = self._decode(data)
        self.characters += len(raw)
        self.garbled += raw.count("\N{REPLACEMENT CHARACTER}")
        text = self._strip(raw)
        if text.strip():
            self._last_text = self.last_heard
        self._unread.add(text)
        self.watch.feed(text, self.seconds)
        return text

    def _mark_gap(self, words: str) -> None:
        """Nothing may match across the gap, and a half-received character or sequence is dropped."""
        self.transcript.add(Event(self.seconds, "m", words.encode()))
        self.gaps.append((self.seconds, words))
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._strip = TerminalFilter().feed
        self._unread.add(f"\n[{words}]\n")
        self.watch.feed("\n", self.seconds)


class Unread:
    """What has come and was not taken: pieces, so that adding costs what is added."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size > MOST_UNREAD and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())

    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = deque(("".join(self._pieces),))
        return self._pieces[0] if self._pieces else ""

    def tail(self, characters: int) -> str:
        """The last ``characters``, or all."""
        taken: list[str] = []
        for piece in reversed(self._pieces):
            taken.append(piece[-characters:])
            characters -= len(taken[-1])
            if characters <= 0:
                break
        return "".join(reversed(taken))

    def take(self, start: int, end: int) -> str:
        """The text up to ``start``, and keep what is after ``end``; both counted from the end of all."""
        text = self.text()
        before, after = text[: len(text) - start], text[len(text) - end :]
        self._pieces, self._size = deque((after,)), len(after)
        return before


class Plausibility:
    """Whether what came last could be a console's text, or is what a UART makes of another baud rate.

    At a wrong rate the bits of one byte are read as parts of others: bytes above 0x7f that are no UTF-8, NULs
    and control characters no console sends. A loader's and a kernel's own text hold next to none.
    """

    _WINDOW = 512
    _LEAST = 48
    _ODD = frozenset([*range(7), 11, *range(14, 27), *range(28, 32), *range(0x7F, 0x100)])
    _SHARE = 0.3

    def __init__(self) -> None:
        self._last = b""

    def feed(self, data: bytes) -> None:
        self._last = (self._last + data)[-self._WINDOW :]

    @property
    def garbage(self) -> bool:
        """True when what came last makes no sense; UTF-8 in order does."""
        if len(self._last) < self._LEAST:
            return False
        text = self._last.decode("utf-8", "replace")
        odd = sum(
            c == "\N{REPLACEMENT CHARACTER}" or ord(c) in self._ODD
            for c in text
            if ord(c) < 0x80 or c == "\ufffd"
        )
        return odd > self._SHARE * len(text)
