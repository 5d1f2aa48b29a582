"""Locks between processes, on the very files and directories they protect.

Whoever uses a directory of the cache shares a lock on it; whoever wants to remove one must have it alone.
The kernel lets go of every lock when its process ends, however it ends, so nothing here can go stale; the
locks also hold between containers that share a cache, where process numbers mean nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PAUSE = 0.2
"""Seconds between two looks at a lock that another process holds."""


def _sleep() -> None:
    time.sleep(_PAUSE)


def _ignore(_: str) -> None:
    return None


@contextlib.contextmanager
def exclusive(
    path: Path, *, waiting: Callable[[str], None] = _ignore, pause: Callable[[], None] = _sleep
) -> Iterator[None]:
    """Hold the file ``path`` alone, made when absent. Waits for its holder, whom ``waiting`` is told once.

    ``pause`` is called between two attempts and may raise, to give up. Raises ``OSError``.
    """
    with path.open("a+", encoding="utf-8") as file:
        if not _try(file.fileno(), fcntl.LOCK_EX):
            file.seek(0)
            waiting(file.read().strip() or "another process")
            while not _try(file.fileno(), fcntl.LOCK_EX):
                pause()
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold a directory alone for a moment; waits. Raises ``OSError``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def use(directory: Path) -> int | None:
    """Share a directory until the returned descriptor is closed; None when it is absent or being removed."""
    return _directory(directory, fcntl.LOCK_SH)


def claim(directory: Path) -> int | None:
    """A directory alone until the returned descriptor is closed; None when absent, or anyone uses it."""
    return _directory(directory, fcntl.LOCK_EX)


def _directory(directory: Path, how: int) -> int | None:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if _try(descriptor, how) and _is_still(descriptor, directory):
        return descriptor
    os.close(descriptor)
    return None


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(descriptor: int, directory: Path) -> bool:
    """Whether the name still means what was opened, which may have been renamed before it was locked."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    return False
