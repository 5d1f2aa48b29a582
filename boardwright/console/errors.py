"""What can go wrong on a console, told apart by whose fault it is.

A board that fails is a :class:`~boardwright.errors.ProductError`; a cable, port, emulator or host that
fails is a :class:`~boardwright.errors.HostError`, because the same image may pass on the next try.
"""

from __future__ import annotations

from boardwright.console.patterns import Finding
from boardwright.errors import HostError, ProductError


class ConsoleError(HostError):
    """The console, not the board, is in the way. ``state``: the name of what was found; ``lines`` show it."""

    state = "console unusable"
    lines: tuple[str, ...] = ()


class ConsoleLost(ConsoleError):
    """The port is gone: the cable was pulled, the emulator ended, another program took it."""

    state = "port lost"


class ConsoleSilent(ConsoleError):
    """Not one byte has come since the board was switched on."""

    state = "off"


class ConsoleGarbled(ConsoleError):
    """Bytes come, but they cannot be understood: noise, or the wrong baud rate."""

    state = "garbled"


class ConsoleSlow(ConsoleError):
    """The budget ran out while the board was still making progress."""

    state = "slow"


class LoginRefused(ConsoleError):
    """The board asks for a user or a password that we do not have."""

    state = "login refused"


class BoardFailed(ProductError):
    """The board said, or showed, that it cannot go on.

    ``state``: the name of how (see docs/console.md); ``lines``: the lines before the end, which show it.
    """

    def __init__(
        self,
        message: str,
        *,
        state: str = "failed",
        findings: tuple[Finding, ...] = (),
        lines: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.state, self.findings, self.lines = state, findings, lines


class CommandTimeout(ProductError):
    """A command did not end in its time, while the shell still answers."""
