"""Read a medium back and hold every mapped range against the block map."""

from __future__ import annotations

import hashlib
import mmap
from collections import deque
from collections.abc import Iterable
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
    under_way: deque[_Part] = deque()
    free = [memoryview(mmap.mmap(-1, medium.part)) for _ in range(_PARTS)]
    done = 0

    def finish() -> None:
        nonlocal done
        part = under_way.popleft()
        expected = bmap.ranges[part.index].sha256
        try:
            part.hashed.wait()
            if part.last and (found := part.digest.hexdigest()) != expected:
                wrong.setdefault(part.index, f"expected SHA-256 {expected}, found {found}")
        except OSError as error:
            wrong.setdefault(part.index, f"reading failed: {error.strerror}")
        free.append(part.memory)
        done += part.length
        step(done, total)

    for index in indices:
        digest, before, (first, end) = hashlib.sha256(), None, bmap.span(bmap.ranges[index])
        for start in range(first, end, medium.part):
            if not free:
                finish()
            memory, length = free.pop(), min(medium.part, end - start)
            read = Task("read", medium.read, start, memory[:length])
            before = Task("hash", _hash, digest, memory[:length], (before, read))
            under_way.append(_Part(index, length, start + length == end, memory, digest, before))
    while under_way:
        finish()
    return wrong


_PARTS = 6
"""Parts that are being read or hashed; those being read keep the disk busy."""


@dataclass(frozen=True, slots=True)
class _Part:
    """``length`` bytes of range number ``index``, the ``last`` ones of it or not."""

    index: int
    length: int
    last: bool
    memory: memoryview
    digest: hashlib._Hash
    hashed: Task


def _hash(digest: hashlib._Hash, data: memoryview, first: tuple[Task | None, Task]) -> None:
    """When the part before it was hashed, and this one was read."""
    for task in first:
        if task:
            task.wait()
    digest.update(data)
