"""A person at the board's console: the board's bytes to this terminal and the transcript, keys to the board.

The keys are not recorded, as a password is not echoed and would stand in the transcript; what the board
echoes is. Ctrl-] leaves, as it leaves telnet.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator

from boardwright.console.console import Console
from boardwright.console.transport import Gap, Port

LEAVE = b"\x1d"
"""Ctrl-]."""
_TURN = 0.02
"""Seconds between two looks at the keyboard: an echo comes back before a person sees the difference."""
_KEYS = 256


class Shown:
    """A port whose bytes also go to a terminal, as they come."""

    def __init__(self, port: Port, screen: int) -> None:
        self._port, self._screen = port, screen

    def read(self, seconds: float) -> bytes:
        try:
            data = self._port.read(seconds)
        except Gap as gap:
            show(self._screen, f"\r\n[{gap}]\r\n".encode())
            raise
        show(self._screen, data)
        return data

    def write(self, data: bytes) -> None:
        self._port.write(data)

    def close(self) -> None:
        self._port.close()


def show(screen: int, data: bytes) -> None:
    """All of ``data`` to a terminal that may take it in parts. Raises ``OSError`` when it is gone."""
    while data:
        try:
            data = data[os.write(screen, data) :]
        except BlockingIOError:
            select.select([], [screen], [])


def attach(console: Console, keyboard: int | None = None) -> None:
    """Between keyboard and board until Ctrl-] or until the terminal is closed; the terminal is restored.

    ``keyboard``: a descriptor, by default stdin. Raises ``ConsoleLost`` when the board's port stays away.
    """
    keys = sys.stdin.fileno() if keyboard is None else keyboard
    with _raw(keys):
        while True:
            try:
                console.channel.listen(_TURN)
                typed = os.read(keys, _KEYS) if select.select([keys], [], [], 0)[0] else None
            except OSError:  # EIO: the terminal was closed; a port that is gone has an error of its own
                return
            console.channel.discard()
            if typed is None:
                continue
            before, leave, _ = typed.partition(LEAVE)
            if before:
                console.channel.send(before)
            if leave or not typed:
                return


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Every key reaches us, Ctrl-C too, and nothing is echoed here."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal)
        yield
    finally:
        with contextlib.suppress(termios.error):  # closed meanwhile
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
