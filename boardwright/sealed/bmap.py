"""Write a block map (bmap 2.0) of a disk image: which blocks to write to a card, with their SHA-256.

The format is that of bmaptool (https://github.com/yoctoproject/bmaptool). Ranges are cut at multiples
of ``PIECE`` so that they can be hashed in parallel, checked before they are written, and named when
one of them reads back wrong. Runs inside the sandbox, standard library only.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from .inuse import Image, Span, merged

BLOCK = 4096
PIECE = 4 * 2**20
"""The erase block of most SD cards and eMMC; the image's partitions start at multiples of it or of 1 MiB."""
_CHUNK = 2**18
"""What a CPU's cache holds between reading and hashing."""

_HEAD = """<?xml version="1.0" ?>
<!-- Blocks that must be written for a card to be this image; all others may hold anything.
     `boardwright flash` and `bmaptool copy` read this file. -->
<bmap version="2.0">
    <ImageSize> {size} </ImageSize>
    <BlockSize> {block} </BlockSize>
    <BlocksCount> {blocks} </BlocksCount>
    <MappedBlocksCount> {mapped} </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BmapFileChecksum> {checksum} </BmapFileChecksum>
    <BlockMap>
"""
_FOOT = """    </BlockMap>
</bmap>
"""
_ZEROED = "0" * 64


def write(image: Image, used: Iterable[Span], jobs: int) -> str:
    """The text of the bmap of an image.

    ``used`` are the bytes that must be written, ``jobs`` the number of threads that hash.
    """
    pieces = list(cut(merged(used, BLOCK), PIECE))
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        digests = pool.map(lambda piece: _digest(image, *piece), pieces)
        lines = [_range(piece, digest) for piece, digest in zip(pieces, digests, strict=True)]
    return _sealed(image.size, sum(end - start for start, end in pieces) // BLOCK, "".join(lines))


def _digest(image: Image, start: int, end: int) -> str:
    """Journals and inode tables are holes for the most part: their zeros are hashed once for each length."""
    try:
        hole = os.lseek(image.descriptor, start, os.SEEK_DATA) >= end
    except OSError:  # no data behind it
        hole = True
    if hole:
        return _digest_of_zeros(end - start)
    digest = hashlib.sha256()
    for position in range(start, end, _CHUNK):
        digest.update(image.read(position, min(end, position + _CHUNK)))
    return digest.hexdigest()


@functools.cache
def _digest_of_zeros(length: int) -> str:
    return hashlib.sha256(bytes(length)).hexdigest()


def cut(spans: Iterable[Span], piece: int) -> Iterable[Span]:
    """The same bytes, no span across a multiple of ``piece``."""
    for start, end in spans:
        while start < end:
            stop = min(end, (start // piece + 1) * piece)
            yield start, stop
            start = stop


def _range(piece: Span, digest: str) -> str:
    first, last = piece[0] // BLOCK, piece[1] // BLOCK - 1
    blocks = f"{first}-{last}" if last > first else f"{first}"
    return f'        <Range chksum="{digest}"> {blocks} </Range>\n'


def _sealed(size: int, mapped: int, ranges: str) -> str:
    """The file with its own checksum, which is taken while that field is all zeros."""
    head = _HEAD.format(size=size, block=BLOCK, blocks=-(-size // BLOCK), mapped=mapped, checksum=_ZEROED)
    text = head + ranges + _FOOT
    return text.replace(_ZEROED, hashlib.sha256(text.encode()).hexdigest(), 1)
