"""Read a medium back and hold every mapped range against the block map."""

from __future__ import annotations

import hashlib
import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from boardwright.flash.medium import Digesting, Medium
from boardwright.flash.tasks import Task
from boardwright.flash.write import Step
from boardwright.image.bmap import Bmap


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
    """The ranges that are wrong, after each was read a second time; ``only``: these ranges (default: all)."""
    indices = list(range(len(bmap.ranges))) if only is None else sorted(only)
    read = _digests if isinstance(medium, Digesting) else _pass
    wrong = read(bmap, medium, list(read(bmap, medium, indices, step)), lambda *_: None)
    return [Bad(index, *bmap.span(bmap.ranges[index]), reason) for index, reason in wrong.items()]


_AHEAD = 3
"""Parts that are being read while one is hashed."""


def _digests(bmap: Bmap, medium: Medium, indices: list[int], step: Step) -> dict[int, str]:
    """As ``_pass``, by digests that are made where the medium is."""
    assert isinstance(medium, Digesting)
    spans = [bmap.span(bmap.ranges[n]) for n in indices]
    total, done, wrong = sum(end - start for start, end in spans), 0, {}
    for index, (start, end), found in zip(indices, spans, medium.digests(spans), strict=True):
        if isinstance(found, OSError):
            wrong[index] = f"reading failed: {found.strerror}"
        elif found != (expected := bmap.ranges[index].sha256):
            wrong[index] = f"expected SHA-256 {expected}, found {found}"
        done += end - start
        step(done, total)
    return wrong


def _pass(bmap: Bmap, medium: Medium, indices: list[int], step: Step) -> dict[int, str]:
    """Read the ranges once, in this order; of those that are wrong, why."""
    total = sum(end - start for start, end in (bmap.span(bmap.ranges[n]) for n in indices))
    wrong: dict[int, str] = {}
    digest, done = hashlib.sha256(), 0
    for index, start, end, read in _read_ahead(bmap, medium, indices):
        span = bmap.span(bmap.ranges[index])
        if start == span[0]:
            digest = hashlib.sha256()
        try:
            digest.update(read())
        except OSError as error:
            wrong[index] = f"reading failed: {error.strerror}"
        expected, found = bmap.ranges[index].sha256, digest.hexdigest() if end == span[1] else ""
        if found and found != expected:
            wrong.setdefault(index, f"expected SHA-256 {expected}, found {found}")
        done += end - start
        step(done, total)
    return wrong


def _read_ahead(
    bmap: Bmap, medium: Medium, indices: list[int]
) -> Iterator[tuple[int, int, int, Callable[[], memoryview]]]:
    """Index of the range, start and end of a part of it, and what waits for its bytes."""
    free = [memoryview(mmap.mmap(-1, medium.part)) for _ in range(_AHEAD + 1)]
    reading: deque[tuple[int, int, int, memoryview, Task]] = deque()

    def first() -> tuple[int, int, int, Callable[[], memoryview]]:
        index, start, end, memory, task = reading.popleft()
        free.append(memory)

        def read() -> memoryview:
            task.wait()
            return memory[: end - start]

        return index, start, end, read

    for index in indices:
        span = bmap.span(bmap.ranges[index])
        for start in range(*span, medium.part):
            end, memory = min(start + medium.part, span[1]), free.pop()
            reading.append(
                (index, start, end, memory, Task("read", medium.read, start, memory[: end - start]))
            )
            if len(reading) > _AHEAD:
                yield first()
    while reading:
        yield first()
