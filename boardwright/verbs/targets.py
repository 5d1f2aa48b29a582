"""``--target`` of ``invoke bringup``: where the image runs, as one word.

``qemu``, ``replay:FILE``, ``serial:PORT`` (a name in /dev/serial/by-id, a path, ``rfc2217://``, ``socket://``)
and ``labgrid:PLACE``. Only the last two are a board.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.errors import InputError
from boardwright.schema.suggest import nearest

if TYPE_CHECKING:
    from boardwright.console.transport import Port
    from boardwright.targets.power import Power

QEMU, REPLAY, SERIAL, LABGRID = "qemu", "replay", "serial", "labgrid"
KINDS = (QEMU, REPLAY, SERIAL, LABGRID)
_NEEDS = {REPLAY: "FILE", SERIAL: "PORT", LABGRID: "PLACE"}


@dataclass(frozen=True, slots=True)
class Target:
    """``where``: the file, port or place."""

    kind: str
    where: str = ""

    @property
    def recording(self) -> Path | None:
        return Path(self.where) if self.kind == REPLAY else None


def parse(text: str, recording: str = "") -> Target:
    """The target of a word; ``recording``: replay's file when the word has none. Raises ``InputError``."""
    kind, _, where = text.partition(":")
    if kind not in KINDS:
        raise InputError(
            f"no target {kind!r}", hint=nearest(kind, KINDS) or f"targets are {', '.join(KINDS)}"
        )
    where = where or (recording if kind == REPLAY else "")
    if kind == QEMU and where:
        raise InputError(f"--target: expected qemu alone, found {text!r}")
    if kind in _NEEDS and not where:
        raise InputError(f"--target: expected {kind}:{_NEEDS[kind]}, found {text!r}")
    if kind == REPLAY and not Path(where).is_file():
        raise InputError(f"--target: no recording {where}")
    return Target(kind, where)


def connect(
    target: Target, baud: int, power: str, coordinator: str, *, cycle: bool = True
) -> Callable[[contextlib.ExitStack], Port] | None:
    """What connects to a board and switches it on; None for a target that is none.

    ``baud``: bits a second. ``power``: a switch (boardwright/targets/power.py). ``cycle``: a labgrid place
    with a switch of its own is switched off and on. Raises ``InputError``.
    """
    if target.kind not in (SERIAL, LABGRID):
        if power or coordinator:
            raise InputError(f"--power and --coordinator are for a board; the target is {target.kind}")
        return None
    from boardwright.targets import power as switches

    switch = switches.parse(power) if power else None
    if target.kind == SERIAL:
        if coordinator:
            raise InputError("--coordinator is for labgrid:PLACE")
        return lambda stack: _serial(stack, target.where, baud, switch)
    return lambda stack: _labgrid(stack, target.where, baud, switch, coordinator, cycle)


def cycle(power: str) -> Callable[[], None]:
    """What switches the board off and on. Raises ``InputError``."""
    from boardwright.targets import power as switches

    switch = switches.parse(power)
    if switch is None:
        raise InputError(f"--power {power}: expected a switch")
    return lambda: switches.cycle(switch)


def _serial(stack: contextlib.ExitStack, url: str, baud: int, switch: Power | None) -> Port:
    from boardwright.targets import serial

    return stack.enter_context(serial.connected(serial.Options(url, baud, switch)))


def _labgrid(
    stack: contextlib.ExitStack, place: str, baud: int, switch: Power | None, coordinator: str, cycle: bool
) -> Port:
    from boardwright.targets import labgrid
    from boardwright.targets import power as switches

    port, own = stack.enter_context(labgrid.connected(labgrid.Lab(place, coordinator), baud))
    if cycle and (chosen := switch or own):
        switches.cycle(chosen)
    return port
