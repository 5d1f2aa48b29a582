"""The one record of a console: every byte with its time, in asciicast v2 (``asciinema play`` shows it).

Events are ``[seconds, "o", text]`` for what the board said, ``[seconds, "i", text]`` for what it was told
and ``[seconds, "m", text]`` for a mark, such as a gap while the port was away. Bytes that are not UTF-8 are
kept as surrogate escapes, so the bytes can be had back exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

from boardwright.console.terminal import TerminalFilter
from boardwright.errors import InputError, Place

Direction = Literal["o", "i", "m"]


@dataclass(frozen=True, slots=True)
class Event:
    seconds: float
    direction: Direction
    data: bytes


class Transcript:
    """Writes events as they happen; nothing is lost when the writer is killed. ``None`` writes nowhere.

    ``raw``: a second file, of exactly the bytes that the board said.
    """

    def __init__(self, path: Path | None, title: str = "console", *, raw: Path | None = None) -> None:
        self._file: IO[str] | None = None
        self._raw: IO[bytes] | None = None
        if raw is not None:
            raw.parent.mkdir(parents=True, exist_ok=True)
            self._raw = raw.open("wb", buffering=0)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="ascii")
            header = {"version": 2, "width": 80, "height": 24, "title": title}
            self._file.write(json.dumps(header) + "\n")

    def add(self, event: Event) -> None:
        if self._raw is not None and event.direction == "o":
            self._raw.write(event.data)
        if self._file is not None:
            text = event.data.decode("utf-8", "surrogateescape")
            self._file.write(json.dumps([round(event.seconds, 4), event.direction, text]) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._raw is not None:
            self._raw.close()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> list[Event]:
    """The events of a transcript; raises ``InputError`` with file and line.

    A last line without its end is what a recorder leaves that was killed; it counts if it is whole.
    """
    events = []
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if number == 1:
                if record["version"] != 2:
                    raise ValueError(f"version {record['version']}")
                continue
            seconds, direction, text = record
            if direction in ("o", "i", "m"):
                events.append(Event(float(seconds), direction, text.encode("utf-8", "surrogateescape")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number > 1 and not line.endswith("\n"):
                break
            raise InputError(
                f"expected a line of an asciicast v2 recording, found {line[:60]!r} ({error})",
                place=Place(str(path), number),
            ) from None
    return events


_TIME = 11
"""Characters before the text of a line: seconds and two blanks."""


def untimed(lines: Iterable[str]) -> str:
    """The text of :func:`timed_lines`, without the times."""
    return "\n".join(line[_TIME:] for line in lines)


def timed_lines(events: Iterable[Event]) -> Iterator[str]:
    """What the board said, for people: plain lines, each with the time at which it ended."""
    strip, rest = TerminalFilter(), ""
    for event in events:
        if event.direction == "o":
            *lines, rest = (rest + strip.feed(event.data.decode("utf-8", "replace"))).split("\n")
            yield from (f"{event.seconds:9.3f}  {line}" for line in lines)
        elif event.direction == "m":
            yield from (
                f"{event.seconds:9.3f}  {line}" for line in (rest, f"-- {event.data.decode()} --") if line
            )
            rest = ""
    if rest:
        yield f"{'':9}  {rest}"
