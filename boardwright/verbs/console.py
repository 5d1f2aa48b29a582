"""``invoke console``: this terminal on the board's serial console, with a transcript."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from boardwright.console import transfer
from boardwright.console.channel import pace_of
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed, ConsoleSilent
from boardwright.console.interactive import Shown, attach
from boardwright.console.loader import KEYS, Autoboot, interrupt
from boardwright.console.transcript import Transcript
from boardwright.errors import ExitStatus, HostError, InputError
from boardwright.verbs import targets
from boardwright.verbs.bringup import PASSWORD
from boardwright.verbs.common import request, say


def console(
    root: Path,
    board: str,
    variant: str,
    target: str,
    *,
    power: str = "",
    coordinator: str = "",
    cycle: bool = False,
    stop_autoboot: bool = False,
    key: str = "",
    budget: int = 60,
    push: str = "",
) -> int:
    """A terminal on the board until Ctrl-]; 1 when the loader was to be stopped and was not, else 0.

    ``push``: FILE:PATH, logs in and has the file on the board instead, and needs no terminal.

    Transcripts: ``out/<board>/console/<time>.cast`` and ``.raw``. ``budget``: seconds to the loader's
    prompt, or to a shell.
    Raises ``InputError``, ``HostError`` without a terminal, ``ConsoleLost`` when the port is gone for good.
    """
    where = _board_target(target)
    if cycle and where.kind == targets.SERIAL and not power:
        raise InputError("--cycle: a serial port switches nothing", hint="add --power: docs/console.md")
    if key and (len(key) > 1 and key not in KEYS):
        raise InputError(f"--key: expected one character or {', '.join(KEYS)}, found {key!r}")
    file, to = _file(push)
    if push and stop_autoboot:
        raise InputError("--push wants a shell and --stop-autoboot the loader: give one of them")
    asked = request(root, board, variant)
    words = asked.context.board.console
    connect = targets.connect(where, words.baud, power, coordinator, cycle=cycle or bool(power))
    assert connect is not None
    if not push and (not sys.stdin.isatty() or not sys.stdout.isatty()):
        raise HostError("expected a terminal for stdin and stdout", hint="invoke bringup needs none")
    cast = asked.out / "console" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.cast"
    with contextlib.ExitStack() as stack:
        if push:
            say(f"logging in; transcript {cast}")
            title = f"{asked.board_name} on {target}"
            transcript = stack.enter_context(Transcript(cast, title, raw=cast.with_suffix(".raw")))
            password = os.environ.get(PASSWORD)
            session = Console(connect(stack), transcript=transcript, pace=pace_of(words), password=password)
            session.boot(float(budget))
            _push(session, file, to)
            return ExitStatus.OK
        say(f"Ctrl-] leaves; transcript {cast}")
        shown = Shown(connect(stack), sys.stdout.fileno())
        title = f"{asked.board_name} on {target}"
        transcript = stack.enter_context(Transcript(cast, title, raw=cast.with_suffix(".raw")))
        session = Console(shown, transcript=transcript, pace=pace_of(words))
        stopped = not stop_autoboot or _stop(session, budget, Autoboot(key or words.stop_autoboot))
        try:
            attach(session)
        finally:
            with contextlib.suppress(OSError):  # the terminal was closed
                say(f"\ntranscript {cast}")
    return ExitStatus.OK if stopped else ExitStatus.PRODUCT


def _file(push: str) -> tuple[bytes, str]:
    """The bytes of ``FILE:PATH`` and the path. Raises ``InputError``."""
    if not push:
        return b"", ""
    name, _, to = push.rpartition(":/")  # either path may hold a colon
    if not name or not to or to.endswith("/"):
        raise InputError(f"--push: expected FILE:/PATH/OF/THE/FILE/ON/THE/BOARD, found {push!r}")
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"--push: {name}: {error.strerror}") from None
    if len(data) > transfer.MOST:
        raise InputError(
            f"--push: {name} has {len(data)} bytes; a serial line is for {transfer.MOST} at most",
            hint="put it into the image, or use the board's network",
        )
    return data, f"/{to}"


def _push(session: Console, data: bytes, to: str) -> None:
    """Every tenth of the way is said; a file that was begun is gone on with."""
    said = 0

    def progress(done: int, of: int) -> None:
        nonlocal said
        if done * 10 // of > said or done == of:
            said = done * 10 // of
            say(f"{done} of {of} bytes")

    transfer.push(session, data, to, progress)
    session.channel.write("exit\n")  # our shell; the login behind it goes on
    say(f"{to} is there, SHA-256 {hashlib.sha256(data).hexdigest()}")


def _board_target(word: str) -> targets.Target:
    if not word:
        raise InputError("--target: expected serial:PORT or labgrid:PLACE")
    where = targets.parse(word)
    if where.kind not in (targets.SERIAL, targets.LABGRID):
        hint = "invoke qemu is a terminal on the emulator" if where.kind == targets.QEMU else None
        raise InputError(f"--target: expected serial:PORT or labgrid:PLACE, found {word!r}", hint=hint)
    return where


def _stop(session: Console, budget: int, how: Autoboot) -> bool:
    """Whether the loader stands at its prompt; if not, why is said, and the person goes on from there."""
    say("stopping the loader's countdown; Ctrl-C gives up")
    try:
        interrupt(session, float(budget), how)
    except (BoardFailed, ConsoleSilent) as error:
        say(f"\n{error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        return False
    session.channel.write("\n")  # a prompt to see
    return True
