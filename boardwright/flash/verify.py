"""Read a medium back and hold every mapped range against the block map."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from boardwright.flash.medium import Medium
from boardwright.flash.source import PIECE
from boardwright.flash.write import Step
from boardwright.image.bmap import Bmap, Range


@dataclass(frozen=True, slots=True)
class Bad:
    """Range number ``index``, bytes ``start`` to ``end``, and what is wrong with it."""

    index: int
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end}: {self.reason}"


def verify(
    bmap: Bmap, medium: Medium, only: Iterable[int] | None = None, step: Step = lambda *_: None
) -> list[Bad]:
    """The ranges that are wrong, after each was read a second time; ``only``: these ranges (default: all).

    One thread reads while this one hashes.
    """
    buffers = [memoryview(mmap.mmap(-1, PIECE)) for _ in range(2)]
    indices = list(range(len(bmap.ranges)) if only is None else sorted(only))
    total = sum(end - start for start, end in (bmap.span(bmap.ranges[n]) for n in indices))
    bad, done = [], 0
    with ThreadPoolExecutor(1, "read") as reader:
        for index in indices:
            part = bmap.ranges[index]
            reason = _wrong(bmap, medium, part, buffers, reader)
            if reason and (reason := _wrong(bmap, medium, part, buffers, reader)):
                bad.append(Bad(index, *bmap.span(part), reason))
            start, end = bmap.span(part)
            done += end - start
            step(done, total)
    return bad


def _wrong(
    bmap: Bmap, medium: Medium, part: Range, buffers: list[memoryview], reader: ThreadPoolExecutor
) -> str:
    """Why a range is not what the map says; empty when it is."""
    digest = hashlib.sha256()
    try:
        for data in _read(medium, *bmap.span(part), buffers, reader):
            digest.update(data)
    except OSError as error:
        return f"reading failed: {error.strerror}"
    found = digest.hexdigest()
    return "" if found == part.sha256 else f"expected SHA-256 {part.sha256}, found {found}"


_PART = 2**20
"""Read while the part before is hashed; small, as a range is seldom larger than four of them."""


def _read(
    medium: Medium, start: int, end: int, buffers: list[memoryview], reader: ThreadPoolExecutor
) -> Iterator[memoryview]:
    positions = list(range(start, end, _PART))
    views = [buffers[n % 2][: min(_PART, end - position)] for n, position in enumerate(positions)]
    pending = reader.submit(medium.read, positions[0], views[0])
    for n, view in enumerate(views):
        pending.result()
        if n + 1 < len(views):
            pending = reader.submit(medium.read, positions[n + 1], views[n + 1])
        yield view
