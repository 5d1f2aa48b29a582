"""A board on a serial port of this host, or of another one: ``/dev/serial/by-id/…``, ``rfc2217://``, ``socket://``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from boardwright.console.reopening import ReopeningPort
from boardwright.targets.power import OFF_SECONDS, Power


@dataclass(frozen=True, slots=True)
class Options:
    """``url``: see :func:`boardwright.console.reopening.stable`. ``patience``: seconds it may be away."""

    url: str
    baud: int
    power: Power | None = None
    patience: float = 30.0
    off_seconds: float = OFF_SECONDS
    leave_on: bool = True


@contextlib.contextmanager
def connected(options: Options) -> Iterator[ReopeningPort]:
    """The port, opened before the board is switched on, so that its first byte is heard.

    Without ``power`` the board is taken as it is. Raises ``ConsoleLost`` and ``HostError``.
    """
    power = options.power
    if power is not None:
        power.off()
        time.sleep(options.off_seconds)
    # An adapter that the board feeds appears only when the board is on.
    port = _before_power(options)
    try:
        if power is not None:
            power.on()
        if port is None:
            port = _opened(options)
        yield port
    finally:
        if port is not None:
            port.close()
        if power is not None and not options.leave_on:
            power.off()


def _before_power(options: Options) -> ReopeningPort | None:
    from boardwright.console.errors import ConsoleLost

    try:
        return ReopeningPort(options.url, options.baud, patience=options.patience)
    except ConsoleLost:
        if options.power is None:
            raise
        return None


def _opened(options: Options) -> ReopeningPort:
    from boardwright.console.errors import ConsoleLost

    end = time.monotonic() + options.patience
    while True:
        try:
            return ReopeningPort(options.url, options.baud, patience=options.patience)
        except ConsoleLost:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
