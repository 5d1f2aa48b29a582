"""What a build shows on stderr: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType


def duration(seconds: float) -> str:
    """``4.2 s``, ``3 min 05 s``, ``1 h 12 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|.)?")
"""ECMA-48 control sequences, and the operating system commands that set a terminal's title or clipboard."""


def printable(text: str) -> str:
    """One line of a log as a terminal may have it: no colours, no cursor moves, no control characters."""
    plain = _CONTROL_SEQUENCE.sub("", text).expandtabs()
    return "".join(c if c.isprintable() else " " for c in plain)


def short(path: Path) -> str:
    """A path as seen from where the user is, when it lies below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


class Progress:
    """Plain lines: a step's start, its end with the elapsed time, and notes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        with self._lock:
            print(text, file=self.stream, flush=True)

    def started(self, step: str, title: str) -> None:
        self.note(f"  {step}: {title}")

    def line(self, step: str, text: str) -> None:
        """The newest line of a step's log; plain progress keeps it to the log."""

    def finished(self, step: str, seconds: float) -> None:
        self.note(f"  {step}: done in {duration(seconds)}")

    def failed(self, step: str, seconds: float) -> None:
        self.note(f"  {step}: failed after {duration(seconds)}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@dataclass(slots=True)
class _Running:
    title: str
    since: float = field(default_factory=time.monotonic)
    last: str = ""


class LiveProgress(Progress):
    """The running steps redrawn in place: name, elapsed time, last log line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.live import Live

        self._running: dict[str, _Running] = {}
        self._console = Console(file=self.stream, highlight=False)
        self._live = Live(
            get_renderable=self._draw, console=self._console, refresh_per_second=4, transient=True
        )

    def _draw(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        now = time.monotonic()
        for name, running in list(self._running.items()):
            table.add_row(
                Text("▸", style="cyan"),
                Text(name, style="bold"),
                Text(duration(now - running.since), style="dim"),
                Text(running.last or running.title, no_wrap=True, overflow="ellipsis", style="dim"),
            )
        return table

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def started(self, step: str, title: str) -> None:
        self._running[step] = _Running(title)

    def line(self, step: str, text: str) -> None:
        if step in self._running:
            self._running[step].last = printable(text)

    def finished(self, step: str, seconds: float) -> None:
        running = self._running.pop(step, None)
        self.note(f"✓ {step}  {running.title if running else ''}  {duration(seconds)}")

    def failed(self, step: str, seconds: float) -> None:
        self._running.pop(step, None)
        self.note(f"✗ {step}  {duration(seconds)}")

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()


def for_terminal(stream: TextIO | None = None) -> Progress:
    """Live lines on a terminal that can show them; plain lines otherwise (``CI``, pipes, ``TERM=dumb``)."""
    stream = stream or sys.stderr
    dumb = os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("CI")
    return LiveProgress(stream) if stream.isatty() and not dumb else Progress(stream)
