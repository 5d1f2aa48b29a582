"""The image as its mapped pieces, each held against the block map before anybody may write it.

An image is a file, or a stream out of ``zstd`` or ``xz``, read once from its start. When a range of the map
is too large to be held in memory, the image is read once more, first, to hash its ranges.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from boardwright.errors import HostError, InputError, IntegrityError, Place
from boardwright.flash.tasks import Task
from boardwright.image.bmap import Bmap, Range, read

PIECE = 4 * 2**20
"""Bytes that are held at once; the maps of boardwright have no larger range."""
_PROGRAMS = {".zst": ("zstd", "-dcq", "--long=31"), ".xz": ("xz", "-dcq")}
HASHED = 2
"""Pieces that are being hashed while the next is read."""
_PROBED = 8
"""Ranges looked at to tell a damaged image from the map of another one."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image file, compressed or not, and the block map beside it."""

    path: Path
    bmap: Bmap

    @property
    def streamed(self) -> bool:
        return self.path.suffix in _PROGRAMS


class Allocate(Protocol):
    """Gives memory of a size to read into, and may wait until some is free."""

    def __call__(self, size: int, /) -> memoryview: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes ``start`` to ``end`` of range number ``index``; ``data`` None: they are zeros."""

    index: int
    start: int
    end: int
    data: memoryview | None


def find(path: Path) -> Image:
    """The image with its map: ``x.img.zst`` has ``x.bmap``, ``x.img.bmap`` or ``x.img.zst.bmap``.

    Raises ``InputError`` without one of them, ``IntegrityError`` for a map that was changed.
    """
    if not path.is_file():
        raise InputError(f"there is no image {path}", hint="invoke build makes it")
    plain = path.with_suffix("") if path.suffix in _PROGRAMS else path
    names = [plain.with_suffix(".bmap"), plain.with_name(plain.name + ".bmap"), Path(f"{path}.bmap")]
    for name in names:
        if name.is_file():
            image = Image(path, read(name))
            break
    else:
        raise InputError(f"{path} has no block map beside it", hint=f"expected {names[0].name}")
    if not image.streamed and (size := path.stat().st_size) != image.bmap.image_size:
        hint = "the image is truncated, or the map belongs to another"
        wanted = image.bmap.image_size
        raise IntegrityError(f"{path} has {size} bytes, its block map is for {wanted}", hint=hint)
    return image


def pieces(image: Image, allocate: Allocate, wanted: frozenset[int] | None = None) -> Iterator[Piece]:
    """The pieces of the ``wanted`` ranges (default: all) in the order of the disk, their bytes verified.

    Raises ``IntegrityError`` with the reason: the archive is cut or damaged, the map is another image's, or a
    range differs. No byte of a range comes out unless the whole range is right.
    """
    large = [n for n, part in enumerate(image.bmap.ranges) if _length(image, part) > PIECE]
    if large and (wanted is None or wanted & set(large)):
        _check_first(image)
    hashing: deque[_Hashing] = deque()
    with _opened(image) as stream:
        for index in range(len(image.bmap.ranges)):
            if wanted is not None and index not in wanted:
                continue
            for piece in _range(image, stream, index, allocate):
                hashing.append(piece)
                if len(hashing) > HASHED:
                    yield _checked(image, hashing.popleft())
        while hashing:
            yield _checked(image, hashing.popleft())
        if image.streamed and wanted is None:
            stream.end(image.bmap.image_size)


def check_start(image: Image) -> None:
    """Whether image and map belong together, by the first range, before anything is written."""
    for _ in pieces(image, lambda size: memoryview(bytearray(size)), frozenset({0})):
        pass


@dataclass(frozen=True, slots=True)
class _Hashing:
    """A piece that was read; its bytes are being added to the ``digest`` of its range by ``task``."""

    piece: Piece
    digest: hashlib._Hash
    task: Task | None


def _range(image: Image, stream: _Stream, index: int, allocate: Allocate) -> Iterator[_Hashing]:
    part = image.bmap.ranges[index]
    start, end = image.bmap.span(part)
    digest, task = hashlib.sha256(), None
    if is_zero(part, end - start) and not image.streamed:
        yield _Hashing(Piece(index, start, end, None), digest, None)
        return
    for position in range(start, end, PIECE):
        stop = min(end, position + PIECE)
        data = allocate(stop - position)
        stream.read_at(position, data)
        task = Task("hash", _add, digest, data, task)
        yield _Hashing(Piece(index, position, stop, data), digest, task)


def _add(digest: hashlib._Hash, data: memoryview, before: Task | None) -> None:
    if before:
        before.wait()
    digest.update(data)


def _checked(image: Image, hashing: _Hashing) -> Piece:
    """The piece, when the range it ends is right."""
    piece, part = hashing.piece, image.bmap.ranges[hashing.piece.index]
    if hashing.task:
        hashing.task.wait()
        if piece.end == image.bmap.span(part)[1] and (found := hashing.digest.hexdigest()) != part.sha256:
            raise _differs(image, piece.index, found)
    return piece


def is_zero(part: Range, length: int) -> bool:
    """Whether a range is zeros, by its digest; only lengths that are read in one piece are looked at."""
    return length <= PIECE and part.sha256 == _zeros(length)


_digests: dict[int, str] = {}


def _zeros(length: int) -> str:
    if length not in _digests:
        _digests[length] = hashlib.sha256(bytes(length)).hexdigest()
    return _digests[length]


def _length(image: Image, part: Range) -> int:
    start, end = image.bmap.span(part)
    return end - start


def _check_first(image: Image) -> None:
    memory = memoryview(bytearray(PIECE))
    with _opened(image) as stream:
        for index, part in enumerate(image.bmap.ranges):
            found = _hashed(image, stream, part, memory)
            if found != part.sha256:
                raise _differs(image, index, found)


def _hashed(image: Image, stream: _Stream, part: Range, memory: memoryview) -> str:
    digest, (start, end) = hashlib.sha256(), image.bmap.span(part)
    for position in range(start, end, PIECE):
        data = memory[: min(end - position, PIECE)]
        stream.read_at(position, data)
        digest.update(data)
    return digest.hexdigest()


def _differs(image: Image, index: int, found: str) -> IntegrityError:
    """A damaged image differs in one place, another image in nearly all that hold data."""
    part = image.bmap.ranges[index]
    start, end = image.bmap.span(part)
    if index == 0:
        memory = memoryview(bytearray(PIECE))
        following = [r for r in image.bmap.ranges[1:] if not is_zero(r, _length(image, r))][:_PROBED]
        with _opened(image) as stream:
            wrong = sum(_hashed(image, stream, other, memory) != other.sha256 for other in following)
        if wrong * 2 >= len(following):
            return IntegrityError(
                f"the block map belongs to another image than {image.path}: its first range and {wrong} of "
                f"the {len(following)} after it differ",
                hint="image and map come from one build; take both from there",
            )
    return IntegrityError(
        f"{image.path} is damaged between bytes {start} and {end}: "
        f"expected SHA-256 {part.sha256}, found {found}",
        hint="compare it with SHA256SUMS, and copy it again",
    )


class _Stream:
    """Bytes of an image at rising positions."""

    def __init__(
        self, image: Image, file: IO[bytes] | BinaryIO, process: subprocess.Popen[bytes] | None
    ) -> None:
        self.image, self.file, self.process = image, file, process
        self.position = 0
        self._skipped = memoryview(bytearray(2**18)) if process else memoryview(b"")

    def read_at(self, position: int, data: memoryview) -> None:
        if self.process is None:
            self.file.seek(position)
        else:
            while self.position < position:
                part = self._skipped[: min(len(self._skipped), position - self.position)]
                self._fill(part)
        self._fill(data)

    def end(self, size: int) -> None:
        """The rest up to ``size`` must come, and nothing after it: the archive carries its own checksum."""
        self.read_at(size, memoryview(b""))
        if self.file.read(1):
            raise IntegrityError(
                f"{self.image.path} unpacks to more than the {size} bytes of its block map",
                hint="the map belongs to another image",
            )
        if self.process and self.process.wait():
            raise self._ended()

    def _fill(self, data: memoryview) -> None:
        while data:
            count = self.file.readinto(data)  # type: ignore[union-attr]
            if not count:
                raise self._ended()
            self.position += count
            data = data[count:]

    def _ended(self) -> IntegrityError:
        path, wanted = self.image.path, self.image.bmap.image_size
        if self.process is None:
            return IntegrityError(f"{path} became shorter while it was read")
        if self.process.wait() == 0:
            return IntegrityError(
                f"{path} unpacks to {self.position} bytes, its block map is for {wanted}",
                hint="the map belongs to another image",
            )
        assert self.process.stderr is not None
        words = self.process.stderr.read(2000).decode(errors="replace").strip().splitlines()
        return IntegrityError(
            f"{path} is truncated or damaged: unpacking ended after {self.position} of {wanted} bytes "
            f"({words[-1] if words else f'status {self.process.returncode}'})",
            place=Place(str(path)),
            hint="compare it with SHA256SUMS, and copy it again",
        )


@contextlib.contextmanager
def _opened(image: Image) -> Iterator[_Stream]:
    if not image.streamed:
        with image.path.open("rb", buffering=0) as file:
            yield _Stream(image, file, None)
        return
    command = [*_PROGRAMS[image.path.suffix], "--", str(image.path)]
    try:
        # The session of its own keeps a terminal's Ctrl-C to us, who then end it.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            bufsize=0, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        name = {"xz": "xz-utils"}.get(command[0], command[0])
        raise HostError(f"{command[0]} is not installed", hint=f"apt install {name}") from error
    with process:
        assert process.stdout is not None
        try:
            yield _Stream(image, process.stdout, process)
        finally:
            process.kill()
