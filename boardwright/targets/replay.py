"""A recorded console in place of a board: the boot as it was, and the answers as they were given.

What the console types may differ from then in order and number; what was never asked has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from boardwright.console import shell, transcript
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard
from boardwright.console.terminal import plain
from boardwright.console.transcript import Event

_REQUEST = re.compile(r"\bbwc? (\d+) [0-9a-f]{16} '((?:[^'\n]|'\\'')*)'")


def port(recording: Path) -> BoardPort:
    """A cable to the recorded board. Raises ``InputError`` when the file is no recording."""
    return BoardPort(ScriptedBoard(script(transcript.read(recording))))


def script(events: Sequence[Event]) -> Script:
    """The script of a board that does what these events show."""
    typed = next((i for i, e in enumerate(events) if e.direction == "i" and e.data.strip()), len(events))
    boot, before = [], 0.0
    for event in events[:typed]:
        if event.direction == "o":
            text = event.data.decode("utf-8", "replace").replace("\r", "")
            boot.append((event.seconds - before, text))
            before = event.seconds
    first = events[typed].data.decode() if typed < len(events) else ""
    return Script(
        boot=tuple(boot),
        reaches_shell=bool(first),
        autologin=first == shell.ENTER,
        user="root" if first in ("", shell.ENTER) else first,
        answers=answers(events),
    )


def answers(events: Sequence[Event]) -> dict[str, Result]:
    """Every command with its answer; of one that was asked several times, the last."""
    typed = b"".join(e.data for e in events if e.direction == "i").decode("utf-8", "replace")
    said = plain(b"".join(e.data for e in events if e.direction == "o").decode("utf-8", "replace"))
    found = {}
    for number, quoted in _REQUEST.findall(typed):
        for end in shell.end(int(number)).finditer(said):
            sum_, status = end.groups()
            before = said[: end.start() + 1]
            for coded in (False, True) if sum_ else ():
                result = shell.answer(int(number), before, sum_, status, coded=coded)
                if result is not None:
                    found[quoted.replace("'\\''", "'")] = result
    return found
