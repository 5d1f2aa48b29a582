"""Read a block map (bmap 2.0) and hold an image, or a card, against it.

Written by ``boardwright/sealed/bmap.py``; files of bmaptool are read as well. Sizes are bytes, ranges
are blocks with both ends included.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from boardwright.errors import IntegrityError, Place

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

CHUNK = 2**20
_OURS = b"all others may hold anything"
"""In the comment at the head of our maps."""


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks ``first`` to ``last`` and the SHA-256 of their bytes."""

    first: int
    last: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bmap:
    """What to write: every block of ``ranges``, in order."""

    image_size: int
    block_size: int
    ranges: tuple[Range, ...]
    whole: bool = False
    """Zeros that matter are ranges too, so the rest may hold anything: ours are made from the layout.
    bmaptool makes its own from the holes of a file, which a file system may rely on."""

    def span(self, part: Range) -> tuple[int, int]:
        """Start and end of a range in bytes; the last block of an image may be short."""
        return part.first * self.block_size, min((part.last + 1) * self.block_size, self.image_size)

    @property
    def mapped_bytes(self) -> int:
        return sum(end - start for start, end in map(self.span, self.ranges))


def read(path: Path) -> Bmap:
    """Raises ``IntegrityError`` for a file that is no bmap 2.0 with SHA-256, or was changed."""
    raw = path.read_bytes()
    try:
        root = _parsed(raw)
        bmap = Bmap(
            _number(root, "ImageSize"), _number(root, "BlockSize"), tuple(_ranges(root)), _OURS in raw
        )
        _check_consistent(bmap, root)
    except ValueError as error:
        raise IntegrityError(f"no usable block map: {error}", place=Place(str(path))) from error
    _check_own_sum(raw, _text(root, "BmapFileChecksum"), path)
    return bmap


def verify(bmap: Bmap, image: BinaryIO, name: str) -> None:
    """Compare every mapped range of ``image`` with its digest.

    Raises ``IntegrityError`` that names the first range that differs, or where the data ended.
    """
    for part in bmap.ranges:
        start, end = bmap.span(part)
        image.seek(start)
        digest, left = hashlib.sha256(), end - start
        while left and (data := image.read(min(left, CHUNK))):
            digest.update(data)
            left -= len(data)
        if left:
            raise IntegrityError(f"{name} ends at byte {end - left}, the block map goes on to {end}")
        if digest.hexdigest() != part.sha256:
            raise IntegrityError(
                f"{name} differs from its block map between bytes {start} and {end} "
                f"(blocks {part.first} to {part.last}): expected SHA-256 {part.sha256}, "
                f"found {digest.hexdigest()}"
            )


def verify_file(bmap: Bmap, path: Path) -> None:
    """As :func:`verify`, for an image file, whose size must be right too."""
    size = path.stat().st_size
    if size != bmap.image_size:
        raise IntegrityError(f"{path} has {size} bytes, its block map is for {bmap.image_size}")
    with path.open("rb", buffering=0) as image:
        verify(bmap, image, str(path))


def _parsed(raw: bytes) -> Element:
    from xml.etree import ElementTree

    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise ValueError("it declares a document type, which no block map does")
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    if root.tag != "bmap" or root.get("version", "").split(".")[0] != "2":
        raise ValueError(f"expected bmap version 2, found {root.tag} {root.get('version')}")
    if (kind := _text(root, "ChecksumType")) != "sha256":
        raise ValueError(f"expected ChecksumType sha256, found {kind}")
    return root


def _text(root: Element, tag: str) -> str:
    found = root.findtext(tag)
    if found is None:
        raise ValueError(f"it has no {tag}")
    return found.strip()


def _number(root: Element, tag: str) -> int:
    text = _text(root, tag)
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError(f"expected a number in {tag}, found {text!r}")
    return int(text)


def _ranges(root: Element) -> Iterator[Range]:
    for element in root.iterfind("BlockMap/Range"):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", element.text or "")
        sha256 = element.get("chksum", "")
        if match is None or not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise ValueError(f"expected blocks with a SHA-256, found {element.text!r} with {sha256!r}")
        yield Range(int(match[1]), int(match[2] or match[1]), sha256)


def _check_consistent(bmap: Bmap, root: Element) -> None:
    """Ranges must rise, stay in the image, and be as many as the head says."""
    if bmap.block_size == 0:
        raise ValueError("BlockSize is 0")
    blocks, following = -(-bmap.image_size // bmap.block_size), 0
    for part in bmap.ranges:
        if not following <= part.first <= part.last < blocks:
            raise ValueError(f"range {part.first}-{part.last} is out of order or behind block {blocks - 1}")
        following = part.last + 1
    counts = {"BlocksCount": blocks, "MappedBlocksCount": sum(r.last - r.first + 1 for r in bmap.ranges)}
    for tag, count in counts.items():
        if _number(root, tag) != count:
            raise ValueError(f"{tag} is {_text(root, tag)}, the other fields make it {count}")


def _check_own_sum(raw: bytes, said: str, path: Path) -> None:
    """The checksum of the file is taken while its own field holds zeros."""
    zeroed = raw.replace(said.encode(), b"0" * len(said), 1)
    found = hashlib.sha256(zeroed).hexdigest()
    if found != said:
        raise IntegrityError(
            f"the block map was changed: expected SHA-256 {said}, found {found}", place=Place(str(path))
        )
