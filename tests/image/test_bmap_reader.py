"""A block map is read, held against an image, and refused when it or the image was changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from boardwright.errors import ExitStatus, IntegrityError
from boardwright.image import bmap

CONTENT = bytes(4096) + b"a" * 4096 + b"b" * 8192 + bytes(4096) + b"c" * 100


def text(ranges: str | None = None, blocks: int = 6, mapped: int = 4, **changes: str) -> str:
    """A map in bmaptool's own layout for CONTENT, with its checksum; ``changes`` replace words in it."""
    if ranges is None:
        ranges = "".join(_range(first, last) for first, last in ((1, 1), (2, 3), (5, 5)))
    made = (
        '<?xml version="1.0" ?>\n<bmap version="2.0">\n'
        f"<ImageSize> {len(CONTENT)} </ImageSize> <BlockSize> 4096 </BlockSize>\n"
        f"<BlocksCount> {blocks} </BlocksCount> <MappedBlocksCount> {mapped}    </MappedBlocksCount>\n"
        "<ChecksumType> sha256 </ChecksumType>\n"
        f"<BmapFileChecksum> {'0' * 64} </BmapFileChecksum>\n<BlockMap>{ranges}</BlockMap>\n</bmap>\n"
    )
    for old, new in changes.items():
        made = made.replace(old, new)
    return made.replace("0" * 64, hashlib.sha256(made.encode()).hexdigest(), 1)


def _range(first: int, last: int) -> str:
    digest = hashlib.sha256(CONTENT[first * 4096 : (last + 1) * 4096]).hexdigest()
    return f'<Range chksum="{digest}"> {first}{f"-{last}" if last > first else ""} </Range>'


def read(tmp_path: Path, content: str) -> bmap.Bmap:
    path = tmp_path / "x.bmap"
    path.write_text(content)
    return bmap.read(path)


def image(tmp_path: Path, content: bytes = CONTENT) -> Path:
    path = tmp_path / "x.img"
    path.write_bytes(content)
    return path


def test_ranges_are_read_and_the_last_block_may_be_short(tmp_path: Path) -> None:
    found = read(tmp_path, text())
    assert [found.span(part) for part in found.ranges] == [(4096, 8192), (8192, 16384), (20480, 20580)]
    assert found.mapped_bytes == 4096 + 8192 + 100
    bmap.verify_file(found, image(tmp_path))


def test_a_changed_byte_is_named_by_its_range(tmp_path: Path) -> None:
    spoilt = bytearray(CONTENT)
    spoilt[12000] ^= 1
    with pytest.raises(IntegrityError, match=r"between bytes 8192 and 16384 \(blocks 2 to 3\)"):
        bmap.verify_file(read(tmp_path, text()), image(tmp_path, bytes(spoilt)))


def test_what_is_not_mapped_may_be_anything(tmp_path: Path) -> None:
    bmap.verify_file(read(tmp_path, text()), image(tmp_path, b"\xaa" * 4096 + CONTENT[4096:]))


def test_an_image_of_another_size(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"has 20579 bytes, its block map is for 20580"):
        bmap.verify_file(read(tmp_path, text()), image(tmp_path, CONTENT[:-1]))


def test_a_card_that_ends_early(tmp_path: Path) -> None:
    with (
        image(tmp_path, CONTENT[:9000]).open("rb") as card,
        pytest.raises(IntegrityError, match="ends at byte 9000"),
    ):
        bmap.verify(read(tmp_path, text()), card, "card")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is not XML"),
        ("<bmap version='1.4'></bmap>", "expected bmap version 2, found bmap 1.4"),
        ("<html/>", "expected bmap version 2, found html"),
        ("<bmap version='2.0'></bmap>", "it has no ChecksumType"),
        (text(sha256="sha1"), "expected ChecksumType sha256, found sha1"),
        (text(ranges='<Range chksum="12"> 1 </Range>'), "expected blocks with a SHA-256"),
        (text(ranges=_range(1, 1).replace(" 1 ", " 1-x ")), "expected blocks with a SHA-256"),
        (text(ranges=_range(2, 3) + _range(1, 1)), "range 1-1 is out of order"),
        (text(ranges=_range(1, 2) + _range(2, 3)), "range 2-3 is out of order"),
        (text(ranges=_range(1, 6)), "range 1-6 is out of order or behind block 5"),
        (text(ranges=_range(3, 3).replace(" 3 ", " 3-2 ")), "range 3-2 is out of order"),
        (text().replace("> 4096 <", "> 0 <"), "BlockSize is 0"),
        (text().replace("> 4096 <", "> 4K <"), "expected a number in BlockSize, found '4K'"),
        (text(blocks=7), "BlocksCount is 7, the other fields make it 6"),
        (text(mapped=3), "MappedBlocksCount is 3, the other fields make it 4"),
        ('<!DOCTYPE b [<!ENTITY a "a">]>' + text(), "it declares a document type"),
    ],
)
def test_a_file_that_is_no_block_map(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(IntegrityError, match=said) as raised:
        read(tmp_path, content)
    assert raised.value.exit_status == ExitStatus.INTEGRITY
    assert str(raised.value.place) == str(tmp_path / "x.bmap")


def test_a_block_map_that_was_changed(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="the block map was changed"):
        read(tmp_path, text().replace("> 5 <", ">  5 <"))
