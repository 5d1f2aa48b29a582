"""The store: finished step outputs by key.

``<cache>/store/<key>/`` holds ``out/`` (what the step left), ``log`` and ``entry.json`` (every file with
its SHA-256, and the record the key was made from). An entry appears by one rename, so it is there whole
or not at all. It is verified whenever it is used: a file whose size, inode, mtime and ctime are those of
the last full check is trusted, any other is hashed again. An entry that fails is set aside and the step
runs again; only steps that ended well are ever stored.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boardwright.build import digest
from boardwright.errors import HostError, IntegrityError


def cache_directory() -> Path:
    """``$BOARDWRIGHT_CACHE``, else ``$XDG_CACHE_HOME/boardwright``, else ``~/.cache/boardwright``."""
    if own := os.environ.get("BOARDWRIGHT_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "boardwright"


@dataclass(frozen=True, slots=True)
class Entry:
    """A verified entry of the store."""

    key: str
    directory: Path

    @property
    def out(self) -> Path:
        return self.directory / "out"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def description(self) -> dict[str, Any]:
        """``entry.json``: step, key, record, files as ``[path, kind, executable, size, digest]`` rows."""
        result: dict[str, Any] = json.loads((self.directory / "entry.json").read_text())
        return result

    def digests(self) -> dict[str, str]:
        """SHA-256 of every regular file by its path below ``out``."""
        return {row[0]: row[4] for row in self.description()["files"] if row[1] == "file"}


class Store:
    """All entries below one directory. Safe for any number of processes at once."""

    def __init__(self, directory: Path, *, note: Callable[[str], None] = lambda text: None) -> None:
        self.directory = directory
        self._note = note
        self._verified: dict[str, Entry] = {}

    def _prepare(self) -> None:
        for name in ("", "tmp", "locks"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        tag = self.directory / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text("Signature: 8a477f597d28d172789f06886806bc55\n")

    def find(self, key: str) -> Entry | None:
        """The entry of ``key``, verified, or None. A damaged entry is removed and reported as absent."""
        if entry := self._verified.get(key):
            return entry
        directory = self.directory / key
        if not (directory / "entry.json").exists():
            return None
        problem = _verify(directory)
        if problem:
            self._note(f"store entry {key[:12]} is damaged ({problem}); its step runs again")
            self.remove(key)
            return None
        entry = self._verified[key] = Entry(key, directory)
        return entry

    @contextlib.contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold the lock of ``key`` between processes; waits for the holder and says who it is."""
        self._prepare()
        path = self.directory / "locks" / key
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                file.seek(0)
                self._note(f"waiting for {file.read().strip() or 'another build'}, which makes {key[:12]}")
                fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            file.truncate()
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield

    @contextlib.contextmanager
    def scratch(self, key: str) -> Iterator[Path]:
        """A directory on the store's file system for making ``key``; gone afterwards whatever happens."""
        self._prepare()
        self._sweep()
        path = Path(tempfile.mkdtemp(prefix=f"{key[:16]}.{os.getpid()}.", dir=self.directory / "tmp"))
        try:
            yield path
        finally:
            remove_tree(path)

    def _sweep(self) -> None:
        """Remove what processes that are gone left behind (kill -9)."""
        for path in (self.directory / "tmp").iterdir():
            pid = path.name.split(".")[1:2]
            if pid and pid[0].isdigit() and not _alive(int(pid[0])):
                remove_tree(path)

    def commit(self, key: str, scratch: Path, step: str, record: dict[str, Any]) -> Entry:
        """Make ``scratch/out`` (and ``scratch/log``) the entry of ``key``.

        Raises ``HostError`` when the disk is full; then nothing of the entry remains.
        """
        made = scratch / "entry"
        try:
            made.mkdir()
            (scratch / "out").rename(made / "out")
            if (scratch / "log").exists():
                (scratch / "log").rename(made / "log")
            files = [row.as_row() for row in digest.items(made / "out")]
            text = json.dumps({"step": step, "key": key, "record": record, "files": files}, indent=0)
            _write_durably(made / "entry.json", text)
            _write_durably(made / "state.json", json.dumps(_fingerprints(made / "out")))
            os.sync()
            final = self.directory / key
            if final.exists():
                self.remove(key)
            made.rename(final)
        except OSError as error:
            raise host_error(error, self.directory) from error
        entry = self._verified[key] = Entry(key, final)
        return entry

    def remove(self, key: str) -> None:
        """Remove an entry: renamed away first, so that no reader sees half of it."""
        self._verified.pop(key, None)
        self._prepare()
        doomed = self.directory / "tmp" / f"{key[:16]}.{os.getpid()}.removed.{time.monotonic_ns()}"
        with contextlib.suppress(FileNotFoundError):
            (self.directory / key).rename(doomed)
            remove_tree(doomed)

    def entries(self) -> list[Entry]:
        """Every entry, unverified, least recently used first."""
        if not self.directory.exists():
            return []
        found = [path for path in self.directory.iterdir() if (path / "entry.json").exists()]
        found.sort(key=lambda path: ((path / "state.json").stat().st_mtime_ns, path.name))
        return [Entry(path.name, path) for path in found]

    def touch(self, entry: Entry) -> None:
        """Mark an entry as used now, for :mod:`boardwright.build.collect`."""
        with contextlib.suppress(OSError):
            os.utime(entry.directory / "state.json")


def _fingerprints(root: Path) -> dict[str, list[int]]:
    return {
        path: [info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns]
        for path, info in digest.walk(root)
        if not stat.S_ISDIR(info.st_mode)
    }


def _verify(directory: Path) -> str | None:
    """What is wrong with an entry, or None. Hashes only files that changed since they were last hashed."""
    try:
        state = json.loads((directory / "state.json").read_text())
        now = _fingerprints(directory / "out")
        if now == state:
            return None
        rows = {row[0]: row for row in json.loads((directory / "entry.json").read_text())["files"]}
        for path, info in digest.walk(directory / "out"):
            if path not in rows:
                return f"{path} does not belong to it"
            if now.get(path) != state.get(path) and (
                digest.item(directory / "out", path, info).as_row() != rows[path]
            ):
                return f"{path} is not what was stored"
        missing = [path for path, row in rows.items() if row[1] != "directory" and path not in now]
        if missing:
            return f"{missing[0]} is missing"
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"unreadable: {error}"
    with contextlib.suppress(OSError):
        _write_durably(directory / "state.json", json.dumps(now))
    return None


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_tree(path: Path) -> None:
    """Remove a tree even when a step left directories without write permission."""

    def open_up(function: Callable[..., Any], name: str, _error: object) -> None:
        parent = Path(name).parent
        with contextlib.suppress(OSError):
            parent.chmod(0o700)
            Path(name).chmod(0o700, follow_symlinks=True)
            function(name)

    shutil.rmtree(path, onerror=open_up)


def host_error(error: OSError, where: Path) -> HostError | IntegrityError:
    """An ``OSError`` of the store's file system in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostError(
            f"the disk is full: {where} has {_free(where)} left",
            hint="make room, run `invoke store --gc`, or set BOARDWRIGHT_CACHE to a larger disk",
        )
    return HostError(f"cannot write to {where}: {error.strerror or error}")


def _free(where: Path) -> str:
    try:
        return f"{shutil.disk_usage(where).free / 2**20:.0f} MiB"
    except OSError:
        return "no space"
