"""Android's sparse images: read with their holes kept, made, and judged by what an AX650 can take.

Source of the format: AOSP ``system/core/libsparse/sparse_format.h``. Everything streams: what is held at once
is one piece of 1 MiB.

The AX650's flash loader reads them by rules of its own (vendor's U-Boot 2020.04,
``cmd/axera/download/sparse_img.c`` and ``fdl_engine.c``), which :func:`for_ax650` holds a file against: read
from that source, seen on no board.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from boardwright.errors import InputError, IntegrityError, Place
from boardwright.vendor.crc_zeros import crc32_of_zeros

MAGIC = 0xED26FF3A
RAW, FILL, DONT_CARE, CRC32 = 0xCAC1, 0xCAC2, 0xCAC3, 0xCAC4
NAMES = {RAW: "raw", FILL: "fill", DONT_CARE: "don't care", CRC32: "CRC32"}

_HEADER = struct.Struct("<I4H4I")
_CHUNK = struct.Struct("<2H2I")
HEADER_SIZE = _HEADER.size
_PIECE = 2**20
_LARGEST_BLOCK = 2**26
LIMIT = 64 * 2**30
"""Bytes that an image may unpack to unless more is asked for: a few bytes can say terabytes."""

AX650_BUFFER = 0x10000000
"""SPARSE_IMAGE_BUF_LEN of ``ax650_common.h``: a chunk must fit beside what is still coming."""
AX650_SLACK = 0x10000
_LARGEST_RUN = 2**30
"""Of the fill and don't-care chunks that we write: the loader counts their bytes in 32 bits."""


class Source(Protocol):
    """What can be read in pieces: a file, or a member of a package."""

    def read(self, size: int = ..., /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Header:
    """``block``: bytes. ``checksum``: CRC-32 of the unpacked image, 0 for none, as most writers leave it."""

    block: int
    blocks: int
    chunks: int
    checksum: int = 0
    header_size: int = HEADER_SIZE
    chunk_header_size: int = _CHUNK.size

    @property
    def size(self) -> int:
        """Bytes of the unpacked image."""
        return self.block * self.blocks


@dataclass(frozen=True, slots=True)
class Chunk:
    """``start``, ``size``: bytes of the unpacked image. ``value``: of a fill, or the CRC-32 up to here."""

    number: int
    kind: int
    start: int
    size: int
    value: int = 0


def is_sparse(start: bytes) -> bool:
    """Whether a file that begins so calls itself a sparse image."""
    return start[:4] == struct.pack("<I", MAGIC)


def parse_header(start: bytes, name: str = "sparse image") -> Header:
    """Raises ``InputError`` for what no reader of the format should go on with."""
    place = Place(name)
    if not is_sparse(start):
        raise InputError(
            f"expected a sparse image ({MAGIC:#x}), found {start[:4].hex(' ') or 'nothing'}", place=place
        )
    if len(start) < HEADER_SIZE:
        raise InputError(f"expected a header of {HEADER_SIZE} bytes, found {len(start)}", place=place)
    _, major, minor, head, chunk_head, block, blocks, chunks, checksum = _HEADER.unpack(start[:HEADER_SIZE])
    if major != 1:
        raise InputError(f"expected version 1, found {major}.{minor}", place=place)
    if head < HEADER_SIZE or chunk_head < _CHUNK.size:
        raise InputError(
            f"expected headers of {HEADER_SIZE} and {_CHUNK.size} bytes at least, "
            f"found {head} and {chunk_head}",
            place=place,
        )
    if not 0 < block <= _LARGEST_BLOCK or block % 4:
        raise InputError(
            f"block size: expected a multiple of 4 up to {_LARGEST_BLOCK}, found {block}", place=place
        )
    return Header(block, blocks, chunks, checksum, head, chunk_head)


class Reader:
    """A sparse image from its first byte on; ``limit``: bytes that it may unpack to.

    Raises ``InputError`` for a file that breaks the format, ``IntegrityError`` for one that ends early or
    whose CRC-32 does not hold.
    """

    def __init__(self, source: Source, name: str = "sparse image", limit: int = LIMIT) -> None:
        self._source, self._name, self._place = source, name, Place(name)
        self.header = parse_header(_filled(source, HEADER_SIZE), name)
        if self.header.size > limit:
            raise InputError(
                f"the image says that it unpacks to {self.header.size} bytes, {limit} are allowed",
                place=self._place,
            )
        self._skip(self.header.header_size - HEADER_SIZE)
        self._crc = 0

    def chunks(self, data: Callable[[Chunk, bytes], None] | None = None) -> Iterator[Chunk]:
        """Every chunk in order, each after its raw bytes went to ``data``, piece by piece."""
        header, at = self.header, 0
        for number in range(header.chunks):
            chunk = self._chunk(number, at)
            if chunk.kind == RAW:
                self._raw(chunk, data)
            elif chunk.kind == FILL and chunk.value:
                self._count_fill(chunk)
            elif chunk.kind != CRC32:
                self._crc = crc32_of_zeros(self._crc, chunk.size)
            elif chunk.value != self._crc:
                raise self._wrong_crc(f"chunk {number}", chunk.value)
            at += chunk.size
            yield chunk
        if at != header.size:
            raise self._bad(f"the chunks make {at} bytes, the header says {header.size}")
        if header.checksum and header.checksum != self._crc:
            raise self._wrong_crc("the header", header.checksum)
        if self._source.read(1):
            raise self._bad(f"there are bytes behind the last of {header.chunks} chunks")

    def _chunk(self, number: int, at: int) -> Chunk:
        header = self.header
        kind, _, count, total = _CHUNK.unpack(self._exactly(_CHUNK.size, f"the header of chunk {number}"))
        self._skip(header.chunk_header_size - _CHUNK.size)
        if kind not in NAMES:
            raise self._bad(f"chunk {number}: expected a known type, found {kind:#x}")
        size = 0 if kind == CRC32 else count * header.block
        body = {RAW: size, DONT_CARE: 0}.get(kind, 4)
        if total != (wanted := header.chunk_header_size + body):
            raise self._bad(
                f"chunk {number} ({NAMES[kind]}): expected a total of {wanted} bytes, found {total}"
            )
        if at + size > header.size:
            raise self._bad(f"chunk {number} ends at byte {at + size}, the image at {header.size}")
        value = 0
        if kind in (FILL, CRC32):
            value = int.from_bytes(self._exactly(4, f"chunk {number}"), "little")
        return Chunk(number, kind, at, size, value)

    def _raw(self, chunk: Chunk, data: Callable[[Chunk, bytes], None] | None) -> None:
        left = chunk.size
        while left:
            piece = self._exactly(min(left, _PIECE), f"chunk {chunk.number}")
            self._crc = zlib.crc32(piece, self._crc)
            if data is not None:
                data(chunk, piece)
            left -= len(piece)

    def _count_fill(self, chunk: Chunk) -> None:
        for piece in fill(chunk):
            self._crc = zlib.crc32(piece, self._crc)

    def _skip(self, size: int) -> None:
        if size:
            self._exactly(size, "a header")

    def _exactly(self, size: int, what: str) -> bytes:
        data = _filled(self._source, size)
        if len(data) < size:
            raise IntegrityError(
                f"the file ends in {what}: expected {size} bytes, found {len(data)}", place=self._place
            )
        return data

    def _bad(self, message: str) -> InputError:
        return InputError(message, place=self._place)

    def _wrong_crc(self, who: str, said: int) -> IntegrityError:
        return IntegrityError(f"{who} says CRC-32 {said:#010x}, found {self._crc:#010x}", place=self._place)


def fill(chunk: Chunk) -> Iterator[bytes]:
    """The bytes of a fill chunk, in pieces."""
    piece = chunk.value.to_bytes(4, "little") * (min(chunk.size, _PIECE) // 4)
    for at in range(0, chunk.size, _PIECE):
        yield piece[: chunk.size - at]


def unpack(source: Source, target: BinaryIO, name: str = "sparse image", limit: int = LIMIT) -> Header:
    """Write the image to ``target``, an empty file that can seek: zeros and don't-care become holes."""
    reader, start = Reader(source, name, limit), target.tell()

    def put(_: Chunk, piece: bytes) -> None:
        target.write(piece)

    for chunk in reader.chunks(put):
        if chunk.kind == FILL and chunk.value:
            for piece in fill(chunk):
                target.write(piece)
        else:
            target.seek(start + chunk.start + chunk.size)
    target.truncate(start + reader.header.size)
    return reader.header


def for_ax650(reader: Reader) -> Iterator[str]:
    """What the AX650's flash loader cannot take of this image, and why."""
    header = reader.header
    if header.header_size != HEADER_SIZE:
        yield f"its header has {header.header_size} bytes; the loader skips more than {HEADER_SIZE} twice"
    if header.block % 512:
        yield f"its blocks of {header.block} bytes are no whole sectors"
    for chunk in reader.chunks():
        if chunk.kind == CRC32:
            yield f"chunk {chunk.number} is a CRC32 chunk, whose four bytes the loader takes for a fault"
        elif chunk.size >= 2**32:
            yield f"chunk {chunk.number} has {chunk.size} bytes, which the loader counts in 32 bits"
        elif chunk.kind == RAW and chunk.size > AX650_BUFFER - AX650_SLACK:
            yield f"chunk {chunk.number} has {chunk.size} bytes, the loader's buffer {AX650_BUFFER}"


def pack(
    source: Source, target: BinaryIO, *, block: int = 4096, skip_zeros: bool = False, crc: bool = False
) -> Header:
    """Write ``source`` to ``target`` (which can seek) as a sparse image; the same bytes give the same file.

    ``skip_zeros``: blocks of zeros become "don't care", which leaves whatever an erased eMMC reads as; right
    only when nothing relies on them being zero. ``crc``: end with a CRC32 chunk, which no AX650 takes.
    Raises ``InputError`` for a size that is no whole number of blocks.
    """
    if not 0 < block <= _PIECE or block % 4:
        raise InputError(f"block size: expected a multiple of 4 up to {_PIECE}, found {block}")
    writer = _Writer(target, block)
    total, checksum = 0, 0
    while data := _filled(source, _PIECE // block * block):
        total += len(data)
        checksum = zlib.crc32(data, checksum)
        if len(data) % block:
            raise InputError(f"expected a multiple of {block} bytes, found {total}")
        for at in range(0, len(data), block):
            writer.add(data[at : at + block], skip_zeros)
    writer.flush()
    if crc:
        writer.chunk(CRC32, 0, checksum.to_bytes(4, "little"))
    return writer.finish(total // block)


class _Writer:
    """Runs of blocks of one kind, as chunks."""

    def __init__(self, target: BinaryIO, block: int) -> None:
        self._target, self._start, self._block = target, target.tell(), block
        self._zeros = bytes(block)
        self._kind, self._value, self._count = DONT_CARE, b"", 0
        self._raw = bytearray()
        self._chunks = 0
        target.write(bytes(HEADER_SIZE))

    def add(self, data: bytes, skip_zeros: bool) -> None:
        kind, value = RAW, b""
        if data == self._zeros:
            kind, value = (DONT_CARE, b"") if skip_zeros else (FILL, data[:4])
        elif data[:4] * (self._block // 4) == data:
            kind, value = FILL, data[:4]
        largest = _PIECE if kind == RAW else _LARGEST_RUN
        full = (self._count + 1) * self._block > largest
        if (kind, value) != (self._kind, self._value) or full:
            self.flush()
            self._kind, self._value = kind, value
        self._count += 1
        if kind == RAW:
            self._raw += data

    def flush(self) -> None:
        if self._count:
            self.chunk(self._kind, self._count, self._value or bytes(self._raw))
        self._count = 0
        self._raw.clear()

    def chunk(self, kind: int, blocks: int, body: bytes) -> None:
        self._target.write(_CHUNK.pack(kind, 0, blocks, _CHUNK.size + len(body)) + body)
        self._chunks += 1

    def finish(self, blocks: int) -> Header:
        if blocks > 0xFFFFFFFF:
            raise InputError(f"expected {0xFFFFFFFF} blocks at most, found {blocks}")
        end = self._target.tell()
        self._target.seek(self._start)
        sizes = (HEADER_SIZE, _CHUNK.size, self._block, blocks, self._chunks, 0)
        self._target.write(_HEADER.pack(MAGIC, 1, 0, *sizes))
        self._target.seek(end)
        return Header(self._block, blocks, self._chunks)


def _filled(source: Source, size: int) -> bytes:
    """Up to ``size`` bytes; fewer only at the end, whatever the source gives at a time."""
    data = source.read(size)
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    return data
