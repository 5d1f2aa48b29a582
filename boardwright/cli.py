"""From verbs to exit statuses: the one place where an error becomes text for a user."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from invoke.context import Context
from invoke.exceptions import Exit

from boardwright.errors import BoardwrightError, ExitStatus, InputError

ISSUE_HINT = "set BOARDWRIGHT_TRACEBACK=1 to see where, and please report it"


def verb(function: Callable[..., int | None]) -> Callable[..., None]:
    """Make a verb of a function: its errors go to stderr as text, its return value is the exit status."""

    @functools.wraps(function)
    def wrapped(context: Context, *args: Any, **kwargs: Any) -> None:
        _listen()
        try:
            status = function(context, *args, **kwargs) or 0
            sys.stdout.flush()
        except BoardwrightError as error:
            _show(error)
            status = error.exit_status
        except KeyboardInterrupt:
            print("\ninterrupted; nothing half-made was kept", file=sys.stderr)
            status = ExitStatus.INTERRUPTED
        except BrokenPipeError:
            _silence()
            status = ExitStatus.HOST
        except Exception as error:  # the edge of the program: whatever is left is our own fault
            if os.environ.get("BOARDWRIGHT_TRACEBACK"):
                raise
            print(f"error: internal fault: {type(error).__name__}: {error}", file=sys.stderr)
            print(f"hint: {ISSUE_HINT}", file=sys.stderr)
            status = ExitStatus.HOST
        if status:
            raise Exit(code=int(status))

    return wrapped


def _silence() -> None:
    """Nobody reads what we print any more; neither does Python complain about it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())


def whole(option: str, text: str, default: int) -> int:
    """The whole number given with an option; invoke's own conversion would end in a traceback."""
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise InputError(f"{option}: expected a whole number, 1 or more, found '{text}'")
    return int(text)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _listen() -> None:
    """Ctrl-C, ``kill`` and a closed terminal all end a verb the same way; ``nohup`` still ignores one."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """Stop once: impatience must not cut short the seconds in which children and scratch are removed."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _show(error: BoardwrightError) -> None:
    from boardwright.errors import InputErrors

    for one in error.errors if isinstance(error, InputErrors) else [error]:
        text = f"error: {one.place}: {one.message}" if one.place else f"error: {one.message}"
        print(text, file=sys.stderr)
        if one.hint:
            print(f"hint: {one.hint}", file=sys.stderr)
