"""How far a phase is: rate and time left, redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

from boardwright.build.progress import duration
from boardwright.flash.write import Step


class Progress:
    """Call it with the name of a phase; what it returns is told of the bytes done."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.every = 0.25 if self.live else 10.0
        """Seconds between two lines."""

    def __call__(self, phase: str) -> Step:
        begun = shown = time.monotonic()

        def step(done: int, total: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if done < total and now - shown < self.every:
                return
            shown = now
            self._show(line(phase, done, total, now - begun), done == total)

        return step

    def _show(self, text: str, last: bool) -> None:
        drawn = f"\r\x1b[K{text}" + ("\n" if last else "") if self.live else f"{text}\n"
        # Nobody reads it any more: no reason to leave a card half written, and no fault of the card.
        with contextlib.suppress(BrokenPipeError):
            self.stream.write(drawn)
            self.stream.flush()


def line(phase: str, done: int, total: int, seconds: float) -> str:
    """``writing: 310 of 620 MB, 20.1 MB/s, 15.4 s left``."""
    rate = done / max(seconds, 1e-3)
    left = f", {duration((total - done) / rate)} left" if 0 < done < total else ""
    return f"{phase}: {done / 1e6:.0f} of {total / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s{left}"
