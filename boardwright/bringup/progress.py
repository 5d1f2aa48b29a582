"""What a run is doing while it waits: state, stage and the last line the board said."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_TERMINAL, _LOG = 0.5, 30.0
"""Seconds between two looks: on a terminal one line is written again and again, in a log they add up."""
_WIDEST = 100


class Progress:
    """Shows ``look()`` on ``stream`` now and then, from a thread of its own, only when it changed."""

    def __init__(
        self, look: Callable[[], str], stream: TextIO | None = None, every: float | None = None
    ) -> None:
        self._look, self._stream = look, stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every = every or (_TERMINAL if self._terminal else _LOG)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._last = ""
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """A line that stays, such as a check's outcome; never torn by the progress."""
        with self._lock:
            self._clear()
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        with self._lock:
            self._clear()
            self._stream.flush()

    def _work(self) -> None:
        while not self._end.wait(self._every):
            text = plain(self._look())[: self._width()]
            if text and text != self._last:
                with self._lock:
                    self._last = text
                    self._stream.write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")
                    self._stream.flush()

    def _width(self) -> int:
        """A line that a narrow terminal breaks in two could not be taken back."""
        if not self._terminal:
            return _WIDEST
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            return _WIDEST
        return min(columns - 1, _WIDEST) if columns > 1 else _WIDEST

    def _clear(self) -> None:
        if self._terminal and self._last:
            self._stream.write("\r\x1b[2K")
        self._last = ""


def plain(text: str) -> str:
    """One line of at most a terminal's width, without what a board could do to the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)[:_WIDEST]
