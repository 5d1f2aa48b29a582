"""What comes out of an image is what its map says, or the right reason why not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from flash_images import BLOCK, KIB, SIZE, SPANS, Memory, block_map, content, found, holds, make

from boardwright.errors import InputError, IntegrityError
from boardwright.flash import run, source
from boardwright.flash.journal import Journal

IMAGE = content()
FORMS = ["", ".zst", ".xz"]
ARCHIVES = FORMS[1:]


def flash(path: Path, medium: Memory) -> run.Done:
    return run.flash(found(path), medium, Journal(path.parent / "state/x.json", "image"))


@pytest.mark.parametrize("suffix", FORMS)
def test_every_form_of_an_image(tmp_path: Path, suffix: str) -> None:
    medium = Memory()
    flash(make(tmp_path, IMAGE, suffix), medium)
    assert holds(medium.durable, IMAGE)


@pytest.mark.parametrize("suffix", FORMS)
def test_the_map_of_another_image(tmp_path: Path, suffix: str) -> None:
    path, medium = make(tmp_path, IMAGE, suffix), Memory()
    (tmp_path / "x.bmap").write_text(block_map(content(seed=2)))
    with pytest.raises(IntegrityError, match=r"the block map belongs to another image than .*x\.img"):
        flash(path, medium)
    assert medium.writes == []


@pytest.mark.parametrize("suffix", FORMS)
def test_a_damaged_range_never_reaches_the_medium(tmp_path: Path, suffix: str) -> None:
    spoilt = bytearray(IMAGE)
    spoilt[1600 * KIB] ^= 1
    path, medium = make(tmp_path, bytes(spoilt), suffix), Memory()
    (tmp_path / "x.bmap").write_text(block_map(IMAGE))
    with pytest.raises(IntegrityError, match="is damaged between bytes 1572864 and 1835008"):
        flash(path, medium)
    assert all(end <= 1536 * KIB or start >= 2048 * KIB for start, end in medium.writes)
    assert medium.seen[:BLOCK] == bytes(BLOCK)


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("keep", [0.02, 0.5, 0.97])
def test_a_truncated_archive_is_called_truncated(tmp_path: Path, suffix: str, keep: float) -> None:
    path, medium = make(tmp_path, IMAGE, suffix), Memory()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(IntegrityError, match="is truncated or damaged: unpacking ended after"):
        flash(path, medium)
    assert medium.seen[:BLOCK] in (bytes(BLOCK), b"\xaa" * BLOCK)


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_an_archive_of_another_length(tmp_path: Path, suffix: str) -> None:
    for length in (len(IMAGE) - 4 * KIB, len(IMAGE) + 4 * KIB):
        path = make(tmp_path, (IMAGE + bytes(4 * KIB))[:length], suffix, SPANS[:-1])
        (tmp_path / "x.bmap").write_text(block_map(IMAGE, SPANS[:-1]))
        with pytest.raises(IntegrityError, match="unpacks to") as raised:
            flash(path, Memory())
        assert raised.value.hint == "the map belongs to another image"


def test_an_image_shorter_than_its_map(tmp_path: Path) -> None:
    path = make(tmp_path, IMAGE)
    path.write_bytes(IMAGE[:-1])
    with pytest.raises(IntegrityError, match=r"has 3145727 bytes, its block map is for 3145728"):
        found(path)


def test_no_map_and_no_image(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no image"):
        found(tmp_path / "x.img")
    (tmp_path / "x.img").write_bytes(IMAGE)
    with pytest.raises(InputError, match="has no block map beside it"):
        found(tmp_path / "x.img")


@pytest.mark.parametrize("suffix", FORMS)
def test_ranges_too_large_for_memory_are_hashed_before_any_is_written(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bmaptool makes them."""
    monkeypatch.setattr(source, "PIECE", 64 * KIB)
    path, medium = make(tmp_path, IMAGE, suffix), Memory()
    flash(path, medium)
    assert holds(medium.durable, IMAGE)
    spoilt = bytearray(IMAGE)
    spoilt[2500 * KIB] ^= 1
    path, medium = make(tmp_path, bytes(spoilt), suffix), Memory()
    (tmp_path / "x.bmap").write_text(block_map(IMAGE))
    with pytest.raises(IntegrityError, match="is damaged"):
        flash(path, medium)
    assert [(start, end) for start, end in medium.writes if any(medium.seen[start:end])] == []


def test_a_map_that_bmaptool_made(tmp_path: Path) -> None:
    """Ours are read by bmaptool in tests/sealed/test_bmap.py."""
    tool = shutil.which("bmaptool")
    if tool is None:
        pytest.skip("bmaptool is not installed (Debian: bmap-tools)")
    path, spans = tmp_path / "x.img", [(0, 256 * KIB), (1024 * KIB, 2560 * KIB)]
    with path.open("wb") as file:
        file.truncate(SIZE)
        for start, end in spans:
            file.seek(start)
            file.write(IMAGE[start:end])
    subprocess.run([tool, "-q", "create", "-o", tmp_path / "x.bmap", path], check=True)
    image, medium = found(path), Memory()
    assert image.bmap.mapped_bytes < SIZE
    run.flash(image, medium, Journal(tmp_path / "x.json", "x"))
    assert holds(medium.durable, path.read_bytes(), spans)
    text = (tmp_path / "x.bmap").read_text()
    (tmp_path / "x.bmap").write_text(text.replace("<BlockMap>", "<BlockMap> "))
    with pytest.raises(IntegrityError, match="the block map was changed"):
        found(path)


def test_an_image_whose_last_block_is_short(tmp_path: Path) -> None:
    data = IMAGE[:-1000]
    spans = [*SPANS[:-1], (SPANS[-1][0], len(data))]
    medium = Memory(len(data))
    flash(make(tmp_path, data, "", spans), medium)
    assert holds(medium.durable, data, spans)
