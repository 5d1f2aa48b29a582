"""The block map covers what is in use, in pieces that can be checked before they are written."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.image import bmap as reader
from boardwright.sealed import bmap, inuse

SIZE = 64 * 2**20
spans = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.integers(1, 3 * bmap.PIECE)).map(
        lambda s: (s[0], min(SIZE, sum(s)))
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def image() -> Path:
    """64 MiB: a hole, data, data that is zero, a hole at the end."""
    with tempfile.NamedTemporaryFile(suffix=".img", delete=False) as file:
        file.truncate(SIZE)
        file.seek(9 * 2**20 + 5)
        file.write(b"boardwright" * 1_000_000)
        file.seek(40 * 2**20)
        file.write(bytes(2**20))
    yield Path(file.name)  # type: ignore[misc]
    Path(file.name).unlink()


def written(image: Path, used: list[inuse.Span], jobs: int = 2) -> str:
    with image.open("rb") as file:
        return bmap.write(inuse.Image(file), used, jobs)


@given(used=spans)
def test_every_used_byte_is_in_a_range_whose_digest_is_right(image: Path, used: list[inuse.Span]) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(written(image, used))
        file.flush()
        read = reader.read(Path(file.name))
    reader.verify_file(read, image)
    covered = [read.span(part) for part in read.ranges]
    assert all(any(a <= start and end <= b for a, b in inuse.merged(covered)) for start, end in used)
    assert read.mapped_bytes <= sum(end - start + 2 * bmap.BLOCK for start, end in used)


@given(used=spans)
def test_no_range_crosses_a_multiple_of_four_mib(used: list[inuse.Span]) -> None:
    pieces = list(bmap.cut(inuse.merged(used, bmap.BLOCK), bmap.PIECE))
    assert all(start // bmap.PIECE == (end - 1) // bmap.PIECE for start, end in pieces)
    assert inuse.merged(pieces) == inuse.merged(used, bmap.BLOCK)


@given(used=spans)
def test_merged_spans_are_disjoint_sorted_and_the_same_bytes(used: list[inuse.Span]) -> None:
    merged = inuse.merged(used)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(merged))
    sample = {point for span in used for point in (span[0], span[1] - 1, span[1])}
    for point in sample:
        inside = any(a <= point < b for a, b in used)
        assert inside == any(a <= point < b for a, b in merged)


def test_the_map_does_not_depend_on_threads_or_on_where_the_holes_are(image: Path, tmp_path: Path) -> None:
    used = [(0, 12 * 2**20), (30 * 2**20, SIZE)]
    full = tmp_path / "full.img"
    full.write_bytes(image.read_bytes())
    assert full.stat().st_blocks * 512 >= SIZE
    assert len({written(image, used, 1), written(image, used, 4), written(full, used)}) == 1


@given(bits=st.sets(st.integers(0, 300)))
def test_runs_of_a_bitmap(bits: set[int]) -> None:
    runs = list(inuse._runs(sum(1 << bit for bit in bits)))
    assert [bit for start, end in runs for bit in range(start, end)] == sorted(bits)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(runs))


def test_bmaptool_copies_by_our_map_and_finds_it_right(image: Path, tmp_path: Path) -> None:
    tool = shutil.which("bmaptool")
    if tool is None:
        pytest.skip("bmaptool is not installed (Debian: bmap-tools)")
    used = [(0, 4096), (9 * 2**20, 41 * 2**20), (SIZE - 5000, SIZE)]
    map_file, card = tmp_path / "board.bmap", tmp_path / "card"
    map_file.write_text(written(image, used))
    command = [tool, "copy", "--bmap", str(map_file), str(image), str(card)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(card.read_bytes()).digest() == hashlib.sha256(image.read_bytes()).digest()
    map_file.write_text(map_file.read_text().replace('chksum="', 'chksum="0', 1))
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
