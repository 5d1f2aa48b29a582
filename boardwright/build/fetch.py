"""Fetches the files that locks name: several at once, continued, checked, every mirror asked in turn.

A file is accepted for its bytes alone, wherever it came from. How files are kept stands in
:mod:`boardwright.build.downloads`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from boardwright.build import mirror
from boardwright.build.downloads import addresses, elsewhere, kept, name, place, record, state, verified
from boardwright.build.step import Download
from boardwright.build.transfer import (
    Body,
    Client,
    NotThereError,
    RangeError,
    TransferError,
    UnansweredError,
    WrongBytesError,
)
from boardwright.errors import BoardwrightError, HostError, IntegrityError

__all__ = ["Patience", "fetch", "verified"]

_SPARE = 64 << 20
"""Bytes of the disk that a fetch leaves free."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of a fetch, in seconds and bytes a second."""

    connections: int = 4
    attempts: int = 4
    pause: float = 1.0
    """Before the second attempt; doubled before each further one."""
    stall: float = 30.0
    """Longest wait for a connection or a byte."""
    grace: float = 120.0
    slowest: int = 8 << 10
    """One file may take ``grace`` plus its size at ``slowest``."""

    def bound(self, size: int) -> float:
        return self.grace + (size or 1 << 30) / self.slowest


def fetch(
    downloads: Iterable[Download],
    directory: Path,
    mirrors: Sequence[str],
    progress: Note = lambda _: None,
    patience: Patience | None = None,
) -> None:
    """Make every download a verified file in ``directory``.

    Raises ``HostError`` when files are on no mirror (one error names them all), when no mirror answers, or
    when the disk is full; ``IntegrityError`` when all that a mirror has is other bytes. What has arrived
    by then stays, also on Ctrl-C, and is not fetched again.
    """
    missing = [wanted for wanted in _distinct(downloads) if not kept(wanted, directory, progress)]
    if not missing:
        return
    if any(not elsewhere(wanted) for wanted in missing):
        mirror.require(tuple(mirrors))
    try:
        _require_space(missing, directory)
        _Fetch(directory, tuple(mirrors), progress, patience or Patience()).run(missing)
    except OSError as error:
        raise _disk_error(error, missing, directory) from error


def _distinct(downloads: Iterable[Download]) -> list[Download]:
    return list({wanted.sha256: wanted for wanted in downloads}.values())


def _require_space(missing: list[Download], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    needed, free = _needed(missing, directory), shutil.disk_usage(directory).free
    if needed + _SPARE > free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _needed(missing: list[Download], directory: Path) -> int:
    """Bytes still to come, partial files counted as there."""
    total = 0
    for wanted in missing:
        if not place(wanted, directory).exists():
            partial = place(wanted, directory).with_suffix(".partial")
            total += max(0, wanted.size - (partial.stat().st_size if partial.exists() else 0))
    return total


def _disk_error(error: OSError, missing: list[Download], directory: Path) -> HostError:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return HostError(f"cannot keep downloads in {directory}: {error.strerror or error}")
    needed = (_needed(missing, directory) + _SPARE) / 2**20
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(directory).free / 2**20
        return HostError(
            f"the disk is full: downloads in {directory} need {needed:.0f} MiB and {free:.0f} MiB are free",
            hint="make room, or set BOARDWRIGHT_CACHE to a directory on a larger disk",
        )
    return HostError(f"the disk of {directory} is full: downloads need {needed:.0f} MiB")


@dataclass(frozen=True, slots=True)
class Failure:
    """A download that no address gave, with what each of them answered."""

    wanted: Download
    answers: dict[str, TransferError]


class _StoppedError(Exception):
    """The fetch is being stopped; no error of its own."""


@dataclass
class _Fetch:
    """One fetch of many files over several connections."""

    directory: Path
    mirrors: tuple[str, ...]
    note: Note
    patience: Patience
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    local: threading.local = field(default_factory=threading.local)
    clients: list[Client] = field(default_factory=list)
    received: int = 0
    silent: int = 0
    """Files in a row for which nobody answered; at ``connections`` the rest is not tried."""

    def run(self, missing: list[Download]) -> None:
        size = sum(wanted.size for wanted in missing) / 1e6
        self.note(f"fetching {len(missing)} files, {size:.0f} MB")
        since = time.monotonic()
        pool = ThreadPoolExecutor(self.patience.connections, thread_name_prefix="fetch")
        futures = [pool.submit(self._one, wanted) for wanted in missing]
        try:
            failures = self._collected(futures, size)
        except BaseException:
            self.stop.set()
            for client in list(self.clients):
                client.abort()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for client in self.clients:
                client.close()
        if failures:
            raise _error(failures)
        self.note(f"fetched {len(missing)} files, {size:.0f} MB, in {time.monotonic() - since:.0f} s")

    def _collected(self, futures: list[Future[Failure | None]], size: float) -> list[Failure]:
        pending, failures, told = set(futures), list[Failure](), time.monotonic()
        while pending:
            done, pending = wait(pending, timeout=1, return_when=FIRST_COMPLETED)
            failures += [failure for future in done if (failure := future.result())]
            if pending and time.monotonic() - told > 5:
                told = time.monotonic()
                came = len(futures) - len(pending)
                self.note(f"  {came} of {len(futures)} files, {self.received / 1e6:.0f} of {size:.0f} MB")
        return sorted(failures, key=lambda failure: failure.wanted.path)

    def _one(self, wanted: Download) -> Failure | None:
        """Ask every address, several times where that makes sense."""
        answers: dict[str, TransferError] = {}
        client = self._client()
        for attempt in range(self.patience.attempts):
            if attempt and self.stop.wait(self.patience.pause * 2 ** (attempt - 1)):
                break
            for url in addresses(wanted, self.mirrors):
                if self.silent >= self.patience.connections:
                    return Failure(wanted, answers or {url: UnansweredError("not tried: nothing answers")})
                if url in answers and answers[url].final:
                    continue
                try:
                    self._from(url, wanted, client)
                except _StoppedError:
                    return None
                except TransferError as error:
                    answers[url] = error
                    continue
                self.silent = 0
                return None
            if all(answer.final for answer in answers.values()):
                return Failure(wanted, answers)
        with self.lock:
            self.silent += 1
        return Failure(wanted, answers)

    def _client(self) -> Client:
        """This thread's client, whose connections live as long as the fetch."""
        if not hasattr(self.local, "client"):
            self.local.client = Client(self.patience.stall)
            self.clients.append(self.local.client)
        client: Client = self.local.client
        return client

    def _from(self, url: str, wanted: Download, client: Client) -> None:
        """One address, once; twice when the first try continued bytes that turned out wrong."""
        path = place(wanted, self.directory)
        with self._partial(path, wanted) as file:
            if file is None:
                return
            try:
                clean = self._continued(url, wanted, client, file)
            except RangeError:
                clean = False
            if not clean:
                file.truncate(0)
                self._continued(url, wanted, client, file)
            file.flush()
            os.fsync(file.fileno())
            partial = path.with_suffix(".partial")
            partial.replace(path)
            record(path, state(path))

    @contextlib.contextmanager
    def _partial(self, path: Path, wanted: Download) -> Iterator[BinaryIO | None]:
        """The partial file, locked between processes; None when another process finished the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        deadline = time.monotonic() + self.patience.bound(wanted.size)
        while time.monotonic() < deadline:
            with partial.open("a+b") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if self.stop.wait(0.2):
                        raise _StoppedError from None
                    continue
                if path.exists():
                    partial.unlink(missing_ok=True)
                    yield None
                    return
                if _is_still(file, partial):
                    yield file
                    return
        raise UnansweredError(f"another process has been fetching {name(wanted)} for too long")

    def _continued(self, url: str, wanted: Download, client: Client, file: BinaryIO) -> bool:
        """Append to ``file`` until it is whole. False when bytes from an earlier run were wrong."""
        file.seek(0)
        hasher, have = hashlib.sha256(), 0
        while block := file.read(1 << 20):
            hasher.update(block)
            have += len(block)
        resumed = have > 0
        if not (wanted.size and have >= wanted.size):
            with client.get(url, have) as body:
                if body.start != have:
                    file.truncate(0)
                    hasher, have, resumed = hashlib.sha256(), 0, False
                have = self._received(url, wanted, body, file, hasher)
        if hasher.hexdigest() == wanted.sha256:
            return True
        if resumed:
            return False
        file.truncate(0)
        raise WrongBytesError(f"{url}: expected SHA-256 {wanted.sha256}, found {hasher.hexdigest()}")

    def _received(self, url: str, wanted: Download, body: Body, file: BinaryIO, hasher: hashlib._Hash) -> int:
        """Write what comes, hashing it; the size of the file then."""
        have, expected = body.start, wanted.size or body.total
        if wanted.size and body.total not in (None, wanted.size):
            raise WrongBytesError(f"{url}: expected {wanted.size} bytes, found {body.total}")
        deadline = time.monotonic() + self.patience.bound(wanted.size)
        while chunk := body.read():
            if self.stop.is_set():
                raise _StoppedError
            if time.monotonic() > deadline:
                raise UnansweredError(f"{url}: only {have} bytes in {self.patience.bound(wanted.size):.0f} s")
            have += len(chunk)
            if wanted.size and have > wanted.size:
                file.truncate(0)
                raise WrongBytesError(f"{url}: expected {wanted.size} bytes, found more")
            file.write(chunk)
            hasher.update(chunk)
            self.received += len(chunk)
        if expected and have < expected:
            raise UnansweredError(f"{url}: the file ended after {have} of {expected} bytes")
        return have


def _is_still(file: BinaryIO, path: Path) -> bool:
    """Whether an open file still has its name; its last holder may have renamed it."""
    try:
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _error(failures: list[Failure]) -> BoardwrightError:
    """One error for all that did not come."""
    wrong = [f for f in failures if any(isinstance(a, WrongBytesError) for a in f.answers.values())]
    if wrong:
        said = [str(a) for f in wrong for a in f.answers.values() if isinstance(a, WrongBytesError)]
        if all(elsewhere(f.wanted) for f in wrong):
            return IntegrityError(
                "a vendor file has other bytes than board.yaml or local.yaml says:\n" + _listed(said),
                hint="compare with `sha256sum FILE`: the file is wrong, or the sha256 beside its path",
            )
        return IntegrityError(
            "a mirror sent other bytes than the lock names:\n" + _listed(said),
            hint=f"the mirror is broken or being changed: try again later, or {mirror.HINT}",
        )
    gone = [f for f in failures if all(isinstance(a, NotThereError) for a in f.answers.values())]
    left = [f for f in gone if not elsewhere(f.wanted)]
    others = [f for f in failures if f not in left]
    parts: list[str] = []
    if left:
        parts.append(f"{len(left)} locked files are on no mirror any more:")
        parts.append(_listed(name(f.wanted) for f in left))
    if others:
        parts.append(f"{len(others)} files could not be fetched:")
        parts.append(_listed(f"{name(f.wanted)}: {list(f.answers.values())[-1]}" for f in others))
    return HostError("\n".join(parts), hint=_ways_out(left, others))


def _ways_out(left: list[Failure], others: list[Failure]) -> str:
    if left:
        return (
            f"run `invoke lock` for the versions mirrors have now; or set {mirror.VARIABLE} to a mirror that "
            "keeps old versions (a snapshot of Debian of the lock's date), or to the directory of an "
            "exported source bundle; or use a store that already holds what they build"
        )
    if all(elsewhere(f.wanted) for f in others):
        return "check the path or url of the vendor file in board.yaml or local.yaml"
    return f"check the network and proxy settings, or {mirror.HINT}"


def _listed(lines: Iterable[str], most: int = 60) -> str:
    every = list(lines)
    shown = [f"  {line}" for line in every[:most]]
    return "\n".join([*shown, *([f"  and {len(every) - most} more"] if len(every) > most else [])])
