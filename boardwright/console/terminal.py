"""Taking terminal control out of what a board writes, so that patterns meet plain text.

Shapes from ECMA-48 (control sequences, control strings) and from what bash, agetty, systemd and U-Boot
send: bracketed paste, cursor reports, colours, title strings, backspaces of a countdown.
"""

from __future__ import annotations

import re

_LONGEST_SEQUENCE = 64
"""A longer 'sequence' is noise that began with a false ESC; its text is given back."""

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, bracketed paste
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC up to BEL or ST
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b[0-Z\\^-~]"  # two characters
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class TerminalFilter:
    """Remembers a sequence that is cut in two by the way it was read."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Text without sequences, control characters and carriage returns; line feeds and tabs stay."""
        text = _SEQUENCE.sub("", self._held + text)
        self._held = ""
        if (tail := _UNFINISHED.search(text)) and len(tail.group()) <= _LONGEST_SEQUENCE:
            self._held = tail.group()
            text = text[: tail.start()]
        return _CONTROL.sub("", text)


def plain(text: str) -> str:
    """A whole text without terminal control."""
    return TerminalFilter().feed(text)
