"""Images with their block maps, and a medium in memory that fails as told."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from boardwright.flash import source

BLOCK = 4096
KIB = 1024
SIZE = 3 * 2**20
SPANS = [
    *((start, start + 128 * KIB) for start in range(0, 512 * KIB, 128 * KIB)),
    (896 * KIB, 1152 * KIB),  # across the end of the first mebibyte
    (1280 * KIB, 1408 * KIB),  # zeros
    *((start, start + 256 * KIB) for start in range(1536 * KIB, 2560 * KIB, 256 * KIB)),
    (SIZE - 8 * KIB, SIZE),
]


def content(seed: int = 1) -> bytes:
    """Data in the mapped ranges; 0x55 in between, which nobody may write."""
    made = bytearray(b"\x55" * SIZE)
    for start, end in SPANS:
        made[start:end] = random.Random(seed * start + seed).randbytes(end - start)
    made[1280 * KIB : 1408 * KIB] = bytes(128 * KIB)
    return bytes(made)


def block_map(data: bytes, spans: list[tuple[int, int]] = SPANS) -> str:
    lines = "".join(
        f'<Range chksum="{hashlib.sha256(data[a:b]).hexdigest()}">{a // BLOCK}-{-(-b // BLOCK) - 1}</Range>\n'
        for a, b in spans
    )
    mapped = sum(-(-b // BLOCK) - a // BLOCK for a, b in spans)
    text = (
        f'<?xml version="1.0" ?>\n<bmap version="2.0"><ImageSize>{len(data)}</ImageSize>\n'
        f"<BlockSize>{BLOCK}</BlockSize><BlocksCount>{-(-len(data) // BLOCK)}</BlocksCount>\n"
        f"<MappedBlocksCount>{mapped}</MappedBlocksCount><ChecksumType>sha256</ChecksumType>\n"
        f"<BmapFileChecksum>{'0' * 64}</BmapFileChecksum><BlockMap>\n{lines}</BlockMap></bmap>\n"
    )
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest(), 1)


def make(directory: Path, data: bytes, suffix: str = "", spans: list[tuple[int, int]] = SPANS) -> Path:
    """``x.img`` or ``x.img.zst`` or ``.xz``, with ``x.bmap``."""
    path = directory / "x.img"
    path.write_bytes(data)
    (directory / "x.bmap").write_text(block_map(data, spans))
    if not suffix:
        return path
    program = {".zst": "zstd", ".xz": "xz"}[suffix]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    packed = Path(f"{path}{suffix}")
    packed.write_bytes(subprocess.run([program, "-qc1", path], stdout=subprocess.PIPE, check=True).stdout)
    path.unlink()
    return packed


def holds(medium: bytes | bytearray, data: bytes, spans: list[tuple[int, int]] = SPANS) -> bool:
    return all(medium[a:b] == data[a:b] for a, b in spans)


class PowerCut(BaseException):
    """Nothing runs any more."""


class Memory:
    """A disk with a write cache: only ``sync`` makes writes last; a power cut keeps some of the others.

    ``cut``: the write that the power fails in; ``broken``: bytes whose writing fails with EIO;
    ``flips``: how often the byte at ``flip`` comes out wrong after it was written.
    """

    part = 2**20

    def __init__(self, size: int = SIZE, old: bytes | None = None) -> None:
        self.size = size
        self.durable = bytearray(old if old is not None else b"\xaa" * size)
        self.seen = bytearray(self.durable)
        self.pending: list[tuple[int, bytes]] = []
        self.writes: list[tuple[int, int]] = []
        self.cut: int | None = None
        self.broken: tuple[int, int, int] | None = None
        self.flip, self.flips = -1, 0
        self.unreadable: tuple[int, int] | None = None
        self.failures = 0
        self.dead = False
        self._lock = threading.RLock()

    def write(self, offset: int, data: memoryview | bytes) -> None:
        """Several threads write; what they do stands in ``writes`` one after another."""
        with self._lock:
            self._write(offset, data)

    def _write(self, offset: int, data: memoryview | bytes) -> None:
        if self.dead:
            raise PowerCut
        content, end = bytes(data), offset + len(data)
        assert 0 <= offset <= end <= self.size
        if self.cut is not None and len(self.writes) == self.cut:
            self._lose_power((offset, content))
        if self.broken and offset < self.broken[1] and end > self.broken[0]:
            self.failures += 1
            raise OSError(self.broken[2], os.strerror(self.broken[2]))
        self.writes.append((offset, end))
        if self.flips and offset <= self.flip < end:
            self.flips -= 1
            spoilt = bytearray(content)
            spoilt[self.flip - offset] ^= 1
            content = bytes(spoilt)
        self.pending.append((offset, content))
        self.seen[offset:end] = content

    def zero(self, start: int, end: int) -> None:
        self.write(start, bytes(end - start))

    def read(self, offset: int, into: memoryview) -> None:
        if self.unreadable and offset < self.unreadable[1] and offset + len(into) > self.unreadable[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        into[:] = self.seen[offset : offset + len(into)]

    def sync(self) -> None:
        with self._lock:
            if self.dead:
                raise PowerCut
            self.pending.clear()
            self.durable[:] = self.seen

    def _lose_power(self, last: tuple[int, bytes]) -> None:
        """Of what was not synced, any blocks may have arrived, half of the last write among them."""
        self.dead = True
        dice = random.Random(self.cut)
        for offset, content in [*self.pending, last]:
            for position in range(0, len(content), BLOCK):
                if dice.random() < 0.5:
                    block = content[position : position + BLOCK]
                    self.durable[offset + position : offset + position + len(block)] = block
        raise PowerCut


def found(path: Path) -> source.Image:
    return source.find(path)
