"""The bench of one run: a target, one boot on it, and the console that all checks share."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from boardwright.bringup.expectation import Expectation, expectation
from boardwright.console.channel import pace_of
from boardwright.console.console import BootReport, Console
from boardwright.console.strategy import Strategy, to_shell
from boardwright.console.transcript import Transcript
from boardwright.console.transport import Port
from boardwright.errors import BoardwrightError, InputError
from boardwright.results.outcome import Evidence
from boardwright.schema.board import Board
from boardwright.targets import qemu, replay


@dataclass(frozen=True, slots=True)
class Options:
    """``budget``: seconds from power-on to a shell, all stages together; ``silence``: see Console.

    ``recording``: the transcript that target ``replay`` plays. ``tests``: a directory of checks; ``only``: of
    them those with one of these words, commas between, in name, file or title. ``history``: the SQLite file
    of all runs. ``connect``: for any target but ``qemu`` and ``replay``, the cable to a board that it
    switches on; what it enters into the stack is closed after the run. ``evidence``: when it is not the
    target's own. ``strategy``: what is done on the way to the shell; ``cycle`` switches the board off and on
    for it. ``clock``: seconds, as that cable's board counts them.
    """

    target: str = "qemu"
    budget: float = 600.0
    silence: float = 120.0
    qemu: qemu.Options = field(default_factory=qemu.Options)
    recording: Path | None = None
    user: str = "root"
    password: str | None = None
    tests: Path = Path(__file__).resolve().parents[2] / "bringup-tests"
    only: str = ""
    history: Path | None = None
    connect: Callable[[contextlib.ExitStack], Port] | None = None
    evidence: Evidence | None = None
    strategy: Strategy = field(default_factory=Strategy)
    cycle: Callable[[], None] | None = None
    clock: Callable[[], float] = time.monotonic


class Bench:
    """Boots at most once; :meth:`boot` gives the report or raises the boot's error each time it is asked."""

    def __init__(
        self,
        image: Path | None,
        board: Board,
        manifest: Mapping[str, Any],
        qemu_root: Path,
        transcript: Path,
        options: Options,
    ) -> None:
        self.board, self.options, self.transcript = board, options, transcript
        self.expected: Expectation = expectation(board, manifest, image, options.strategy.bootargs)
        self._image, self._qemu_root = image, qemu_root
        self._booted: BootReport | BoardwrightError | None = None
        self._console: Console | None = None
        self._open = contextlib.ExitStack()
        self._digest = _Digest(image)

    @property
    def evidence(self) -> Evidence:
        known = {"qemu": Evidence.EMULATED, "replay": Evidence.REPLAYED}
        return self.options.evidence or known.get(self.options.target, Evidence.HARDWARE)

    @property
    def activity(self) -> str:
        """Stage and last line, to be read by another thread while this one waits."""
        if self._console is None:
            return "switching on"
        watch = self._console.watch
        return f"{watch.stage}: {watch.last_line}" if watch.last_line else str(watch.stage)

    @property
    def console(self) -> Console:
        """The console, at a shell. Raises what the boot raised."""
        self.boot()
        assert self._console is not None
        return self._console

    @property
    def image_sha256(self) -> str | None:
        """Of the image as it is on the disk now; worked out while the board boots."""
        return self._digest.value()

    def boot(self) -> BootReport:
        """Switch on and follow to a shell, the first time; the same answer ever after."""
        if self._booted is None:
            try:
                self._booted = self._boot()
            except BoardwrightError as error:
                self._booted = error
        if isinstance(self._booted, BoardwrightError):
            raise self._booted
        return self._booted

    @property
    def boot_failed(self) -> bool:
        return isinstance(self._booted, BoardwrightError)

    @property
    def booted(self) -> BootReport | BoardwrightError | None:
        """How the boot ended; None when nobody has asked for it yet."""
        return self._booted

    def _boot(self) -> BootReport:
        options = self.options
        title = f"{self.board.board} on {options.target}"
        played = None
        if options.target == "replay":
            if options.recording is None:
                raise InputError("target replay needs a recording", hint="give the path of a console.cast")
            played = replay.port(options.recording)  # before the transcript, which may be the same file
        transcript = self._open.enter_context(Transcript(self.transcript, title))
        keywords: dict[str, Any] = {
            "user": options.user,
            "password": options.password,
            "silence": options.silence,
            "pace": pace_of(self.board.console) if options.connect is not None else None,
        }
        if played is not None:
            self._console = Console(played, transcript=transcript, clock=played.clock, **keywords)
        elif options.connect is not None:
            self._digest.start()
            port = options.connect(self._open)
            self._console = Console(port, transcript=transcript, clock=options.clock, **keywords)
        elif options.target != "qemu":
            raise InputError(f"target {options.target!r} has no board to connect to")
        else:
            if self._image is None:
                raise InputError("target qemu needs an image")
            self._digest.start()
            machine = self._open.enter_context(
                qemu.running(self._image, self.board.emulation, self._qemu_root, options.qemu)
            )
            self._console = Console(machine, transcript=transcript, slowdown=_host_slowdown, **keywords)
        return to_shell(self._console, options.budget, options.strategy, options.cycle, switched_on=True)

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def _host_slowdown() -> float:
    """How many runnable threads of this host share one of its CPUs, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


class _Digest:
    """SHA-256 of a file in a thread of its own: hashing releases Python's lock, and a boot mostly waits."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._value: str | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        if self._path is not None:
            self._thread.start()

    def value(self) -> str | None:
        if self._path is not None and not self._thread.ident:
            self.start()
        if self._thread.ident:
            self._thread.join()
        return self._value

    def _work(self) -> None:
        assert self._path is not None
        with self._path.open("rb") as file:
            self._value = hashlib.file_digest(file, "sha256").hexdigest()
