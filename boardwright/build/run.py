"""Processes of a build: started in sessions of their own, logged, and all gone when we stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from boardwright.build.progress import printable

_running: set[subprocess.Popen[bytes]] = set()
_lock = threading.Lock()
_stopping = threading.Event()


_LONGEST_LINE = 1 << 16
"""Bytes after which a line is shown and logged in parts: output without an end must not fill our memory."""


TAIL_LINES = 20
"""Lines of a failed step's log that its error shows."""


class Stopped(Exception):
    """The build is being stopped; no error of its own."""


def run(
    command: list[str],
    log: Path,
    *,
    line: Callable[[str], None] = lambda text: None,
    environment: Mapping[str, str] | None = None,
    umask: int = 0o022,
) -> int:
    """Run ``command``, append what it prints to ``log``, call ``line`` with each line; its exit status.

    The command has no standard input and the given environment only (by default ours). Raises
    :class:`Stopped` when :func:`stop_all` was called, ``OSError`` when it cannot start or be logged.
    """
    with log.open("ab") as file, _started(command, environment, umask) as (process, output):
        for raw in iter(lambda: output.readline(_LONGEST_LINE), b""):
            file.write(raw)
            file.flush()
            if text := raw.decode(errors="replace").rstrip():
                line(text)
        status = process.wait()
    if _stopping.is_set():
        raise Stopped
    return status


@contextlib.contextmanager
def _started(
    command: list[str], environment: Mapping[str, str] | None, umask: int
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    with _lock:
        if _stopping.is_set():
            raise Stopped
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=umask,
            env=None if environment is None else dict(environment),
        )
        _running.add(process)
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        _end(process)
        with _lock:
            _running.discard(process)
        process.stdout.close()


def _end(process: subprocess.Popen[bytes], patience: float = 3.0) -> None:
    """End a process group: its leader is asked first; whoever is left then is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if number == signal.SIGTERM and process.poll() is not None:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def stop_all() -> None:
    """End everything :func:`run` started and refuse to start more; returns when all are gone."""
    with _lock:
        _stopping.set()
        processes = list(_running)
    for process in processes:
        _end(process)


def pause() -> None:
    """A moment between two looks at something a step waits for. Raises :class:`Stopped`."""
    if _stopping.wait(0.2):
        raise Stopped


def resume() -> None:
    """Allow processes again after :func:`stop_all`."""
    _stopping.clear()


def stopping() -> bool:
    return _stopping.is_set()


def tail(log: Path) -> list[str]:
    """The last lines of a log, fit for a terminal; no more of it is read than they can fill."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_LINES * 2000))
        lines = file.read().decode(errors="replace").splitlines()
    return [printable(line) for line in lines[-TAIL_LINES:]]
