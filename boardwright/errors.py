"""The errors a user may see, and the exit status of each.

Everything a user can cause or must act on is a :class:`BoardwrightError`. ``boardwright.cli`` prints it
as ``place: message`` and ``hint: …`` and exits with ``exit_status``; nothing else reaches a user.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ExitStatus(enum.IntEnum):
    """Exit statuses of every verb; documented in README.md."""

    OK = 0
    PRODUCT = 1
    """The product is wrong: a step failed, a check failed, two builds differ."""
    INPUT = 2
    """The request is wrong: a file does not validate, an unknown board or step, a bad option."""
    HOST = 3
    """The host or the lab is wrong: a tool is missing, a mirror does not answer, the disk is full,
    the emulator does not start, the cable is silent."""
    INTEGRITY = 4
    """Bytes are not what a lock or a store entry says they must be."""
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Place:
    """Where an error is: a file as the user would name it, and a line counted from 1 (0: whole file)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])


class BoardwrightError(Exception):
    """One clear error: what was expected and found, where, and what to do about it."""

    exit_status = ExitStatus.INPUT

    def __init__(self, message: str, *, place: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\nhint: {self.hint}" if self.hint else head


class InputError(BoardwrightError):
    """A file or option of the user's is wrong."""

    exit_status = ExitStatus.INPUT


class InputErrors(InputError):
    """Several input errors found in one pass, in the order of their places."""

    def __init__(self, errors: list[InputError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors


class ProductError(BoardwrightError):
    """What was built, or how it behaves, is wrong."""

    exit_status = ExitStatus.PRODUCT


class HostError(BoardwrightError):
    """The host, the network or the lab is wrong; the same request may succeed elsewhere or later."""

    exit_status = ExitStatus.HOST


class IntegrityError(BoardwrightError):
    """Bytes differ from what a lock or the store says."""

    exit_status = ExitStatus.INTEGRITY
