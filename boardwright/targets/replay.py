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

_TIMED = re.compile(r" {0,8}(\d{1,6}\.\d{3})  (.*)")
_KERNEL_TIME = re.compile(r"\[ {0,4}(\d{1,6}\.\d{6})\]")
_LINE_SECONDS = 0.01


def port(recording: Path) -> BoardPort:
    """A cable to the recorded board: an asciicast, or a plain log with times or without (:func:`plain_log`).

    Raises ``InputError`` when the file claims to be a recording and is none.
    """
    data = recording.read_bytes()
    if data.lstrip()[:1] == b"{":
        return BoardPort(ScriptedBoard(script(transcript.read(recording))))
    return BoardPort(ScriptedBoard(script(plain_log(data.decode("utf-8", "replace")))))


def plain_log(text: str) -> list[Event]:
    """The lines of a log as events. A time before a line, in seconds as our ``console.log`` has it, is taken;
    else the kernel's own (``[   12.345678]``) moves the clock on; else a line comes 10 ms after the last.
    """
    events, now = list[Event](), 0.0
    for line in text.replace("\r", "").split("\n"):
        if match := _TIMED.match(line):
            now, line = max(now, float(match.group(1))), match.group(2)
        elif match := _KERNEL_TIME.match(line):
            now = max(now + _LINE_SECONDS, float(match.group(1)))
        else:
            now += _LINE_SECONDS
        events.append(Event(now, "o", f"{line}\r\n".encode()))
    return events


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
