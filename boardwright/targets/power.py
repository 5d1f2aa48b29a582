"""Switching a board: by a command, by a USB hub (uhubctl), or by asking the person beside it.

One line names a power switch: ``command:relay 3`` (run with ``on`` or ``off`` after it),
``uhubctl:1-1.4:2`` (hub and port), ``person``. A lab's switch comes with its place (``targets.labgrid``).
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Protocol

from boardwright.errors import HostError, InputError

OFF_SECONDS = 3.0
"""Between off and on: supplies hold their charge, and an RK3588 that keeps its DRAM alive is not reset."""
_COMMAND_SECONDS = 60.0


class Power(Protocol):
    """Both return when the switch has been set. Raise ``HostError`` when it cannot be."""

    def on(self) -> None: ...

    def off(self) -> None: ...


def cycle(power: Power, seconds: float = OFF_SECONDS, sleep: Callable[[float], None] = time.sleep) -> None:
    """Off, a pause, and on."""
    power.off()
    sleep(seconds)
    power.on()


def parse(text: str) -> Power | None:
    """The switch a line names; ``None`` for ``none``. Raises ``InputError``."""
    kind, _, rest = text.partition(":")
    if kind == "none" and not rest:
        return None
    if kind == "person" and not rest:
        return Person()
    if kind == "command" and rest.strip():
        words = shlex.split(rest)
        return Command((*words, "on"), (*words, "off"))
    if kind == "uhubctl" and len(parts := rest.split(":")) == 2 and all(parts) and parts[1].isdigit():
        return uhubctl(parts[0], int(parts[1]))
    raise InputError(
        f"expected a power switch, found {text!r}",
        hint="command:PROGRAM ARGUMENTS, uhubctl:HUB:PORT, person, or none",
    )


class Command:
    """Programs that set the switch; each may take a minute and must end with 0."""

    def __init__(self, on: tuple[str, ...], off: tuple[str, ...], seconds: float = _COMMAND_SECONDS) -> None:
        self._on, self._off, self._seconds = on, off, seconds

    def on(self) -> None:
        self._run(self._on)

    def off(self) -> None:
        self._run(self._off)

    def _run(self, command: tuple[str, ...]) -> None:
        text = shlex.join(command)
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=self._seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise HostError(f"the power command {text!r} did not end within {self._seconds:g} s") from None
        except OSError as error:
            raise HostError(f"the power command {text!r} does not start: {error.strerror}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise HostError(f"the power command {text!r} ended with {done.returncode}: {said}")


def uhubctl(hub: str, port: int) -> Command:
    """A port of a USB hub that can switch it (uhubctl 2.5: ``-a`` action, ``-l`` location, ``-p`` port)."""
    if shutil.which("uhubctl") is None:
        raise HostError("expected the program uhubctl", hint="install Debian's package uhubctl")
    base = ("uhubctl", "-l", hub, "-p", str(port), "-a")
    return Command((*base, "on"), (*base, "off"))


class Person:
    """Someone beside the board, who is asked and answers with Enter."""

    def __init__(self, ask: Callable[[str], str] = input) -> None:
        self._ask = ask

    def on(self) -> None:
        self._wait("Switch the board on")

    def off(self) -> None:
        self._wait("Switch the board off")

    def _wait(self, text: str) -> None:
        if self._ask is input and not sys.stdin.isatty():
            raise HostError("expected a person at a terminal to switch the board", hint="use another --power")
        try:
            self._ask(f"{text}, then press Enter: ")
        except EOFError:
            raise HostError("nobody answered the question to switch the board") from None
