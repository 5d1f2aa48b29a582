"""Put an image on a medium: mapped ranges only, and the first mebibyte last.

One thread reads, some hash, some write, so that the disk always has a request before it, and one tells it to
keep what was written while more is written. What boot ROMs and partition scanners look at first stays
zero until everything else is there, so a write that was cut off never looks bootable.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from boardwright.errors import HostError
from boardwright.flash import source
from boardwright.flash.journal import Journal
from boardwright.flash.medium import Forgetting, Medium
from boardwright.flash.source import PIECE, Image, Piece
from boardwright.flash.tasks import Task

HEAD = 2**20
"""Holds the partition table and, at sector 64, the first stage of Rockchip's boot ROM."""
FIRST = 4096
DEPTH = 3
"""Writes under way at once."""
BUFFERS = DEPTH + source.HASHED + 2
_KEEP = 64 * 2**20
_KEEP_SECONDS = 1.0
"""Bytes and time at least between two entries of the journal, each of which costs the disk a sync."""
GONE = (errno.ENODEV, errno.ENXIO, errno.ENOMEDIUM, errno.ESHUTDOWN)

Step = Callable[[int, int], None]
"""Told of progress: bytes done, and of how many."""


def write(image: Image, medium: Medium, journal: Journal, step: Step = lambda *_: None) -> None:
    """Write what the journal does not say is done; everything is on the medium when this returns.

    Raises ``IntegrityError`` for a wrong image, before the first byte of the range concerned, and
    ``HostError`` for a medium that fails a range twice.
    """
    clear_head(image, medium, tail=not journal.resumed)
    if not journal.resumed:
        journal.keep(0)
    _forget_gaps(image, medium)
    ranges = image.bmap.ranges
    rest = frozenset(range(journal.done, len(ranges)))
    _ranges(image, medium, rest | heads(image) if journal.done else None, journal, step)


def heads(image: Image) -> frozenset[int]:
    """The numbers of the ranges with bytes of the head."""
    return frozenset(n for n, part in enumerate(image.bmap.ranges) if image.bmap.span(part)[0] < HEAD)


def rewrite(image: Image, medium: Medium, bad: frozenset[int], step: Step = lambda *_: None) -> None:
    """Write these ranges and the head once more; the head stays last."""
    clear_head(image, medium)
    _ranges(image, medium, bad | heads(image), None, step)


def clear_head(image: Image, medium: Medium, tail: bool = False) -> None:
    """From now until the end nothing boots from here; ``tail``: nor is a backup partition table found."""
    _attempt(medium, 0, min(HEAD, medium.size, image.bmap.image_size), None)
    if tail:
        _attempt(medium, max(HEAD, medium.size - HEAD), medium.size, None)
    medium.sync()


def _forget_gaps(image: Image, medium: Medium) -> None:
    """The maps of other tools leave out zeros that matter."""
    if image.bmap.whole or not isinstance(medium, Forgetting):
        return
    start = HEAD
    for first, end in [*map(image.bmap.span, image.bmap.ranges), (image.bmap.image_size, 0)]:
        if first > start and not medium.forget(start, first):
            return
        start = max(start, end)


def _ranges(
    image: Image, medium: Medium, wanted: frozenset[int] | None, journal: Journal | None, step: Step
) -> None:
    spans = [image.bmap.span(part) for part in image.bmap.ranges]
    total = sum(end - start for n, (start, end) in enumerate(spans) if wanted is None or n in wanted)
    head: list[tuple[int, int, bytes | None]] = []
    with _ahead(image, wanted) as (pieces, give_back):
        under_way: deque[tuple[Piece, Task]] = deque()
        keeper = _Keeper(medium, journal)
        written = 0

        def finish() -> None:
            nonlocal written
            piece, task = under_way.popleft()
            task.wait()
            give_back(piece)
            written += piece.end - piece.start
            step(written, total)
            keeper.wrote(piece, last=piece.end == spans[piece.index][1])

        for piece in pieces:
            if piece.start < HEAD:
                held = None if piece.data is None else bytes(piece.data[: HEAD - piece.start])
                head.append((piece.start, min(HEAD, piece.end), held))
            start = max(piece.start, HEAD)
            data = None if piece.data is None else piece.data[start - piece.start :]
            if source.is_zero(image.bmap.ranges[piece.index], piece.end - piece.start):
                data = None
            under_way.append((piece, Task("write", _attempt, medium, start, piece.end, data)))
            while len(under_way) >= DEPTH:
                finish()
        while under_way:
            finish()
        keeper.end()
    medium.sync()
    if journal:
        journal.keep(len(spans))
    _write_head(medium, head)


class _Keeper:
    """Now and then has the medium keep what was written, and then says so in the journal."""

    def __init__(self, medium: Medium, journal: Journal | None) -> None:
        self._medium, self._journal = medium, journal
        self._unkept, self._kept = 0, time.monotonic()
        self._sync: tuple[int, Task] | None = None

    def wrote(self, piece: Piece, last: bool) -> None:
        """Called in the order of the disk, so all before ``piece`` is written; ``last``: of its range."""
        self._unkept += piece.end - piece.start
        if self._journal is None or not last or piece.index < self._journal.done:
            return
        if self._unkept < _KEEP or time.monotonic() - self._kept < _KEEP_SECONDS:
            return
        self.end()
        self._sync = piece.index + 1, Task("sync", self._medium.sync)
        self._unkept, self._kept = 0, time.monotonic()

    def end(self) -> None:
        if self._journal and self._sync:
            done, task = self._sync
            task.wait()
            self._journal.keep(done)
            self._sync = None


def _write_head(medium: Medium, head: list[tuple[int, int, bytes | None]]) -> None:
    """The first block, with the partition table's header, goes out alone when all else is on the medium."""
    for alone in (False, True):
        for first, end, kept in head:
            start, stop = (first, min(end, FIRST)) if alone else (max(first, FIRST), end)
            if start < stop:
                data = None if kept is None else _aligned(kept[start - first : stop - first])
                _attempt(medium, start, stop, data)
        medium.sync()


def _attempt(medium: Medium, start: int, end: int, data: memoryview | None) -> None:
    """Write twice at most."""
    if start >= end:
        return
    for last in (False, True):
        try:
            if data is None:
                medium.zero(start, end)
            else:
                medium.write(start, data)
            return
        except OSError as error:
            if error.errno in GONE:
                raise HostError(
                    f"the medium went away while bytes {start} to {end} were written ({error.strerror})",
                    hint="plug it in and flash again: it goes on where it stopped",
                ) from error
            if last or error.errno == errno.ENOSPC:
                raise HostError(
                    f"bytes {start} to {end} could not be written: {error.strerror}",
                    hint="try another reader or cable; a card that fails there again is worn out",
                ) from error


def _aligned(data: bytes) -> memoryview:
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memoryview(memory)


@contextlib.contextmanager
def _ahead(
    image: Image, wanted: frozenset[int] | None
) -> Iterator[tuple[Iterator[Piece], Callable[[Piece], None]]]:
    """The pieces of an image, read and hashed by another thread into a few aligned buffers."""
    free: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
    ready: queue.SimpleQueue[Piece | BaseException | None] = queue.SimpleQueue()
    for _ in range(BUFFERS):
        free.put(memoryview(mmap.mmap(-1, PIECE)))

    def take(size: int) -> memoryview:
        if (memory := free.get()) is None:
            raise _Stopped
        return memory[:size]

    def produce() -> None:
        try:
            for piece in source.pieces(image, take, wanted):
                ready.put(piece)
            ready.put(None)
        except OSError as error:
            ready.put(HostError(f"{image.path} cannot be read: {error.strerror}"))
        except BaseException as error:  # handed to the thread that waits for it
            ready.put(error)

    def pieces() -> Iterator[Piece]:
        while (got := ready.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got

    def give_back(piece: Piece) -> None:
        if piece.data is not None:
            free.put(memoryview(piece.data.obj))

    thread = threading.Thread(target=produce, name="image", daemon=True)
    thread.start()
    try:
        yield pieces(), give_back
    finally:
        for _ in range(BUFFERS + 1):
            free.put(None)
        thread.join(timeout=5)


class _Stopped(Exception):
    """Nobody wants the rest."""
