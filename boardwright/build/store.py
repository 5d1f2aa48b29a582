"""The store: finished step outputs by key.

``<cache>/store/<key>/`` holds ``out/`` (what the step left), ``log``, ``entry.json`` (every file with its
SHA-256, and the record the key was made from) and ``state.json``. An entry appears by one rename, so it is
there whole or not at all. It is verified whenever it is used: when every size, inode, mtime and ctime is that
of the last full check it is trusted, else all of it is hashed again. An entry that fails counts as absent
until its step has run again; only steps that ended well are ever stored.

Only the holder of a key's lock replaces or removes its entry, and an entry in use is removed by nobody: what
:meth:`Store.find` returned stays until the store is closed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boardwright.build import digest, locks
from boardwright.errors import HostError, IntegrityError


def cache_directory() -> Path:
    """``$BOARDWRIGHT_CACHE``, else ``$XDG_CACHE_HOME/boardwright``, else ``~/.cache/boardwright``."""
    if own := os.environ.get("BOARDWRIGHT_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "boardwright"


_AGAIN = "run the build again: it makes the entry anew"


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
        """``entry.json``: step, key, record, files as ``[path, kind, executable, size, digest]`` rows.

        Raises ``IntegrityError`` when it is not what was stored.
        """
        path = self.directory / "entry.json"
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if result.pop("digest") == digest.of_json(result):
                return result
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise IntegrityError(f"{path} is unreadable: {error}", hint=_AGAIN) from error
        raise IntegrityError(f"{path} is not what was stored", hint=_AGAIN)

    def digests(self) -> dict[str, str]:
        """SHA-256 of every regular file by its path below ``out``."""
        return {row[0]: row[4] for row in self.description()["files"] if row[1] == "file"}

    def used(self) -> float:
        """When a build last used it, in seconds since 1970; 0 when that is not known."""
        with contextlib.suppress(OSError):
            return (self.directory / "state.json").stat().st_mtime
        return 0.0


class Store:
    """All entries below one directory. Safe for any number of processes and threads at once."""

    def __init__(self, directory: Path, *, note: Callable[[str], None] = lambda text: None) -> None:
        self.directory = directory
        self._note = note
        self._found: dict[str, tuple[Entry, int]] = {}
        self._damaged: set[tuple[str, int]] = set()

    def close(self) -> None:
        """Give back what was found: from now on others may remove it."""
        while self._found:
            os.close(self._found.popitem()[1][1])

    def __del__(self) -> None:
        self.close()

    def find(self, key: str) -> Entry | None:
        """The entry of ``key``, verified and kept from removal, or None. A damaged one counts as absent."""
        if found := self._found.get(key):
            return found[0]
        entry = Entry(key, self.directory / key)
        with _in_words(self.directory):
            held = locks.use(entry.directory)
        if held is None:
            return None
        problem = _verify(entry)
        if problem is None:
            return self._keep(entry, held)
        identity = (key, os.fstat(held).st_ino)
        os.close(held)
        if identity not in self._damaged:
            self._damaged.add(identity)
            self._note(f"store entry {key[:12]} is damaged ({problem}): its step runs again")
        return None

    def _keep(self, entry: Entry, held: int) -> Entry:
        kept = self._found.setdefault(entry.key, (entry, held))
        if kept[1] != held:
            os.close(held)
        return kept[0]

    def _prepare(self) -> None:
        for name in ("", "making", "locks"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        tag = self.directory / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text("Signature: 8a477f597d28d172789f06886806bc55\n")

    @contextlib.contextmanager
    def locked(self, key: str, pause: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock of ``key`` between processes; waits for the holder and says who it is.

        ``pause`` is called while waiting and may raise, to give up. Raises ``HostError``.
        """

        def waiting(holder: str) -> None:
            self._note(f"waiting for {holder}, which makes {key[:12]}")

        with contextlib.ExitStack() as stack:
            with _in_words(self.directory):
                self._prepare()
                how = {} if pause is None else {"pause": pause}
                path = self.directory / "locks" / key
                stack.enter_context(locks.exclusive(path, waiting=waiting, **how))
            yield

    @contextlib.contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A directory on the store's file system for making something; gone afterwards whatever happens.

        Raises ``HostError`` when it cannot be made.
        """
        with _in_words(self.directory):
            self.sweep()
            making = self.directory / "making"
            with locks.alone(making):
                path = Path(tempfile.mkdtemp(prefix=f"{name[:16]}.", dir=making))
                held = locks.use(path)
        try:
            yield path
        finally:
            remove_tree(path)
            if held is not None:
                os.close(held)

    def sweep(self) -> None:
        """Remove what processes that are gone left behind (kill -9)."""
        self._prepare()
        making = self.directory / "making"
        with locks.alone(making):
            left = [(path, locks.claim(path)) for path in making.iterdir()]
        for path, held in left:
            if held is not None:
                remove_tree(path)
                os.close(held)

    def commit(self, key: str, scratch: Path, step: str, record: dict[str, Any]) -> Entry:
        """Make ``scratch/out`` (and ``scratch/log``) the entry of ``key``, whose lock the caller holds.

        Raises ``HostError`` when the disk is full; then nothing of the entry remains.
        """
        made, final = Entry(key, scratch / "entry"), Entry(key, self.directory / key)
        with _in_words(self.directory):
            made.directory.mkdir()
            (scratch / "out").rename(made.out)
            if (scratch / "log").exists():
                (scratch / "log").rename(made.log)
            files = [row.as_row() for row in digest.items(made.out)]
            description = {"step": step, "key": key, "record": record, "files": files}
            full = {"digest": digest.of_json(description), **description}
            _write(made.directory / "entry.json", json.dumps(full))
            _write(made.directory / "state.json", json.dumps(_fingerprint(made)))
            _sync(made.directory)
            held = locks.use(made.directory)
            self._forget(key)
            self._discard(key)
            made.directory.rename(final.directory)
        assert held is not None, "nobody else knows the scratch directory"
        return self._keep(final, held)

    def remove(self, key: str) -> bool:
        """Remove an entry unless somebody makes or uses it; whether it is gone. Raises ``HostError``."""
        self._forget(key)
        with contextlib.suppress(_BusyError), self.locked(key, _give_up):
            held = locks.claim(self.directory / key)
            if held is not None:
                with _in_words(self.directory):
                    self._discard(key)
                os.close(held)
                return True
        return False

    def _forget(self, key: str) -> None:
        if found := self._found.pop(key, None):
            os.close(found[1])

    def _discard(self, key: str) -> None:
        """Remove an entry: renamed away first, so that no reader finds half of it."""
        with self.scratch(key) as away, contextlib.suppress(FileNotFoundError):
            (self.directory / key).rename(away / "removed")

    def entries(self) -> list[Entry]:
        """Every entry, unverified, least recently used first."""
        if not self.directory.exists():
            return []
        found = [Entry(p.name, p) for p in self.directory.iterdir() if (p / "entry.json").exists()]
        return sorted(found, key=lambda entry: (entry.used(), entry.key))

    def touch(self, key: str) -> None:
        """Mark an entry as used now, for :mod:`boardwright.build.collect`."""
        with contextlib.suppress(OSError):
            os.utime(self.directory / key / "state.json")


class _BusyError(Exception):
    """Somebody else holds the lock of a key."""


def _give_up() -> None:
    raise _BusyError


def _fingerprint(entry: Entry) -> str:
    """What changes when anybody writes to the entry: no bytes are read."""
    text = hashlib.sha256()
    for base in (entry.directory / "entry.json", entry.out):
        for path, info in digest.walk(base):
            state = info.st_mode, info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns
            text.update(f"{path}\0{state}\n".encode(errors="surrogateescape"))
    return text.hexdigest()


def _verify(entry: Entry) -> str | None:
    """What is wrong with an entry, or None. Reads its files only when something touched them."""
    try:
        now = _fingerprint(entry)
        if now == _recorded(entry):
            return None
        rows = {row[0]: row for row in entry.description()["files"]}
        for item in digest.items(entry.out):
            if item.path not in rows:
                return f"{item.path} does not belong to it"
            if item.as_row() != rows.pop(item.path):
                return f"{item.path} is not what was stored"
        if rows:
            return f"{next(iter(rows))} is missing"
    except IntegrityError as error:
        return error.message
    except OSError as error:
        return f"unreadable: {error}"
    with contextlib.suppress(OSError):
        _write(entry.directory / "state.json", json.dumps(now))
    return None


def _recorded(entry: Entry) -> object:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((entry.directory / "state.json").read_text(encoding="utf-8"))
    return None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def _sync(directory: Path) -> None:
    """Wait until the file system of ``directory``, and no other, has everything on its disk (syncfs(2))."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if library.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a tree even when a step left directories without write permission."""

    def open_up(function: Callable[..., Any], name: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            Path(name).parent.chmod(0o700)
            if not Path(name).is_symlink():
                Path(name).chmod(0o700)
            function(name)

    shutil.rmtree(path, onerror=open_up)


@contextlib.contextmanager
def _in_words(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise host_error(error, where) from error


def host_error(error: OSError, where: Path) -> HostError:
    """An ``OSError`` of the store's file system in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostError(
            f"the disk is full: {where} has {_free(where)} left",
            hint="make room, run `invoke store --gc`, or set BOARDWRIGHT_CACHE to a larger disk",
        )
    name = f" ({error.filename})" if error.filename else ""
    return HostError(
        f"cannot use {where}: {error.strerror or error}{name}",
        hint="it must be a directory this user may write to; BOARDWRIGHT_CACHE names another",
    )


def _free(where: Path) -> str:
    try:
        return f"{shutil.disk_usage(where).free / 2**20:.0f} MiB"
    except OSError:
        return "no space"
