"""Sparse images: both ways without loss, with holes, in small memory; hostile ones are refused by name."""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import struct
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import InputError, IntegrityError
from boardwright.vendor import sparse
from boardwright.vendor.crc_zeros import crc32_of_zeros
from boardwright.vendor.sparse import CRC32, DONT_CARE, FILL, MAGIC, RAW, Reader, for_ax650, unpack

BLOCK = 4096
NOISE = random.Random(7)
blocks = st.sampled_from([bytes(BLOCK), b"\xff" * BLOCK, b"abcd" * (BLOCK // 4), NOISE.randbytes(BLOCK)])
images = st.lists(blocks, max_size=12).map(b"".join)


def header(blocks: int, chunks: int, **changes: int) -> bytes:
    fields = {"magic": MAGIC, "major": 1, "minor": 0, "head": 28, "chunk": 12, "block": BLOCK}
    fields |= {"blocks": blocks, "chunks": chunks, "checksum": 0} | changes
    return struct.pack("<I4H4I", *fields.values())


def chunk(kind: int, blocks: int, body: bytes = b"", total: int | None = None) -> bytes:
    return struct.pack("<2H2I", kind, 0, blocks, 12 + len(body) if total is None else total) + body


def packed(data: bytes, **options: bool) -> bytes:
    target = io.BytesIO()
    sparse.pack(io.BytesIO(data), target, **options)  # type: ignore[arg-type]
    return target.getvalue()


def unpacked(data: bytes, limit: int = sparse.LIMIT) -> bytes:
    target = io.BytesIO()
    unpack(io.BytesIO(data), target, "rootfs_sparse.ext4", limit)
    return target.getvalue().ljust(sparse.parse_header(data).size, b"\0")


@given(data=images, skip=st.booleans(), crc=st.booleans())
def test_what_is_packed_is_unpacked(data: bytes, skip: bool, crc: bool) -> None:
    made = packed(data, skip_zeros=skip, crc=crc)
    assert unpacked(made) == data
    assert made == packed(data, skip_zeros=skip, crc=crc)


@given(before=st.binary(max_size=20), length=st.integers(0, 100_000))
def test_the_crc_of_zeros_is_zlibs(before: bytes, length: int) -> None:
    crc = zlib.crc32(before)
    assert crc32_of_zeros(crc, length) == zlib.crc32(bytes(length), crc)


def test_the_crc_of_a_hole_is_that_of_its_halves() -> None:
    """What zlib would take minutes for."""
    half = crc32_of_zeros(zlib.crc32(b"x"), 12 * 2**30)
    assert crc32_of_zeros(half, 12 * 2**30) == crc32_of_zeros(zlib.crc32(b"x"), 24 * 2**30)


def test_blocks_become_the_chunks_that_say_them_shortest() -> None:
    noise = NOISE.randbytes(BLOCK)
    made = packed(bytes(2 * BLOCK) + noise + b"abcd" * 1024 + b"\xff" * BLOCK)
    kinds = [(c.kind, c.size // BLOCK, c.value) for c in Reader(io.BytesIO(made)).chunks()]
    word = int.from_bytes(b"abcd", "little")
    assert kinds == [(FILL, 2, 0), (RAW, 1, 0), (FILL, 1, word), (FILL, 1, 0xFFFFFFFF)]
    skipped = packed(bytes(2 * BLOCK) + noise, skip_zeros=True)
    assert [c.kind for c in Reader(io.BytesIO(skipped)).chunks()] == [DONT_CARE, RAW]


def test_holes_stay_holes_and_memory_stays_small(tmp_path: Path) -> None:
    """8 GiB of which two blocks are data."""
    count = 2**33 // BLOCK
    data = header(count, 4) + chunk(RAW, 1, b"a" * BLOCK) + chunk(DONT_CARE, count // 2)
    data += chunk(FILL, count // 2 - 2, bytes(4)) + chunk(RAW, 1, b"z" * BLOCK)
    path = tmp_path / "rootfs.ext4"
    tracemalloc.start()
    with path.open("wb") as target:
        assert unpack(io.BytesIO(data), target).size == 2**33
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20
    status = path.stat()
    assert status.st_size == 2**33
    assert status.st_blocks * 512 < 2**20
    with path.open("rb") as file:
        assert file.read(2 * BLOCK) == b"a" * BLOCK + bytes(BLOCK)
        file.seek(-BLOCK, os.SEEK_END)
        assert file.read() == b"z" * BLOCK


def test_a_hole_at_the_end_counts_for_the_size(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as target:
        unpack(io.BytesIO(header(3, 1) + chunk(DONT_CARE, 3)), target)
    assert (tmp_path / "x").stat().st_size == 3 * BLOCK


def test_a_large_image_is_packed_in_pieces() -> None:
    source = io.BytesIO(NOISE.randbytes(BLOCK) * 2048)
    target = io.BytesIO()
    tracemalloc.start()
    made = sparse.pack(source, target)
    peak = tracemalloc.get_traced_memory()[1] - len(target.getvalue()) * 2
    tracemalloc.stop()
    assert made.chunks == 8
    assert peak < 8 * 2**20


def test_longer_headers_of_a_later_version_are_skipped() -> None:
    data = header(1, 1, head=32, chunk=16) + b"more" + chunk(FILL, 1, b"more" + b"abcd")
    assert unpacked(data) == b"abcd" * 1024


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "expected a sparse image .*found nothing"),
        (b"\x53\xef\x01\x02", "found 53 ef 01 02"),
        (header(1, 1)[:20], "expected a header of 28 bytes, found 20"),
        (header(1, 1, major=2), "expected version 1, found 2.0"),
        (header(1, 1, head=27), "found 27 and 12"),
        (header(1, 1, chunk=11), "found 28 and 11"),
        (header(1, 1, block=0), "block size: .*found 0"),
        (header(1, 1, block=4098), "block size: .*found 4098"),
        (header(1, 1, block=2**27), "block size: .*found 134217728"),
        (header(1, 1) + chunk(0xCAC5, 1), "chunk 0: expected a known type, found 0xcac5"),
        (header(1, 1) + chunk(RAW, 1, bytes(BLOCK), total=BLOCK), r"chunk 0 \(raw\): .*of 4108 .*found 4096"),
        (header(1, 1) + chunk(FILL, 1, bytes(4), total=12), r"\(fill\): expected a total of 16 bytes"),
        (header(1, 1) + chunk(DONT_CARE, 1, total=16), r"\(don't care\): expected a total of 12 bytes"),
        (header(1, 1) + chunk(CRC32, 0, total=12), r"\(CRC32\): expected a total of 16 bytes"),
        (header(1, 1) + chunk(DONT_CARE, 2), "chunk 0 ends at byte 8192, the image at 4096"),
        (header(2, 1) + chunk(DONT_CARE, 1), "the chunks make 4096 bytes, the header says 8192"),
        (header(1, 1) + chunk(DONT_CARE, 1) + b"x", "bytes behind the last of 1 chunks"),
        (header(2**32 - 1, 1) + chunk(FILL, 2**32 - 1, b"bomb"), "unpacks to 17592186040320 bytes"),
    ],
)
def test_every_field_that_is_wrong_is_named(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        list(Reader(io.BytesIO(data), "r.ext4").chunks())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (header(1, 1), "ends in the header of chunk 0: expected 12 bytes, found 0"),
        (header(1, 1, head=40), "ends in a header: expected 12"),
        (header(1, 1) + chunk(RAW, 1, b"cut", total=12 + BLOCK), "ends in chunk 0: expected 4096 .*found 3"),
        (header(1, 1) + chunk(FILL, 1, b"c", total=16), "ends in chunk 0: expected 4 bytes, found 1"),
        (header(0, 2**32 - 1) + chunk(DONT_CARE, 0) * 3, "ends in the header of chunk 3"),
        (header(1, 2) + chunk(DONT_CARE, 1) + chunk(CRC32, 0, b"bad!"), "chunk 1 says CRC-32 0x21646162"),
        (
            header(1, 1, checksum=7) + chunk(DONT_CARE, 1),
            "the header says CRC-32 0x00000007, found 0xc71c0011",
        ),
    ],
)
def test_what_is_cut_or_damaged_is_an_integrity_error(data: bytes, words: str) -> None:
    with pytest.raises(IntegrityError, match=words) as raised:
        list(Reader(io.BytesIO(data), "r.ext4").chunks())
    assert str(raised.value.place) == "r.ext4"


@given(at=st.integers(0, 200), value=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(at: int, value: int) -> None:
    data = bytearray(
        header(3, 3) + chunk(FILL, 1, b"abcd") + chunk(DONT_CARE, 1) + chunk(RAW, 1, bytes(BLOCK))
    )
    data[at] = value
    with contextlib.suppress(InputError, IntegrityError):
        assert len(unpacked(bytes(data), limit=2**20)) <= 2**20


@pytest.mark.parametrize("size", [1, BLOCK - 4, BLOCK + 512])
def test_a_size_that_is_no_whole_number_of_blocks_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"multiple of 4096 bytes, found {size}"):
        packed(bytes(size))


@pytest.mark.parametrize("block", [0, 6, 2**21])
def test_a_block_size_that_cannot_be_is_refused(block: int) -> None:
    with pytest.raises(InputError, match=f"block size: .*found {block}"):
        sparse.pack(io.BytesIO(b""), io.BytesIO(), block=block)


def test_the_limits_of_the_ax650s_loader_are_known() -> None:
    def said(data: bytes) -> list[str]:
        return list(for_ax650(Reader(io.BytesIO(data))))

    assert said(packed(NOISE.randbytes(BLOCK) + bytes(BLOCK))) == []
    assert "CRC32 chunk" in said(packed(bytes(BLOCK), crc=True))[0]
    hole = 2**32 // BLOCK
    assert (
        "4294967296 bytes, which the loader counts in 32 bits"
        in said(header(hole, 1) + chunk(DONT_CARE, hole))[0]
    )
    assert said(header(hole - 1, 1) + chunk(DONT_CARE, hole - 1)) == []
    assert "skips more than 28 twice" in said(header(0, 0, head=32) + bytes(4))[0]
    assert "no whole sectors" in said(header(0, 0, block=516))[0]


def test_a_raw_chunk_beyond_the_loaders_buffer_is_known() -> None:
    class Zeros(io.RawIOBase):
        """A file of a header, and zeros without end, of which none is kept."""

        start = header(65536, 1) + chunk(RAW, 65536, total=12 + 65536 * BLOCK)
        left = 65536 * BLOCK

        def read(self, size: int = -1) -> bytes:
            if self.start:
                data, self.start = self.start[:size], self.start[size:]
                return data
            size = min(size, self.left)
            self.left -= size
            return bytes(size)

    assert list(for_ax650(Reader(Zeros()))) == ["chunk 0 has 268435456 bytes, the loader's buffer 268435456"]


def test_our_own_chunks_never_reach_a_limit_of_the_loader() -> None:
    """5 GiB of zeros and 3 MiB of data, as the writer splits them."""

    class Source:
        left = 5 * 2**30
        noise = io.BytesIO(NOISE.randbytes(2**20) * 3)

        def read(self, size: int = -1) -> bytes:
            if not self.left:
                return self.noise.read(size)
            given = min(size, self.left)
            self.left -= given
            return bytes(given)

    target = io.BytesIO()
    sparse.pack(Source(), target, block=2**20)
    assert list(for_ax650(Reader(io.BytesIO(target.getvalue())))) == []


need_tools = pytest.mark.skipif(
    shutil.which("img2simg") is None or shutil.which("simg2img") is None,
    reason="img2simg and simg2img (android-sdk-libsparse-utils) are not installed",
)


def mixed(path: Path) -> bytes:
    data = b"".join(
        [bytes(9 * BLOCK), NOISE.randbytes(300 * BLOCK), b"\xff" * BLOCK, b"abcd" * 2048, bytes(BLOCK)]
    )
    path.write_bytes(data)
    return data


@need_tools
@pytest.mark.parametrize("options", [{}, {"skip_zeros": True}, {"crc": True}], ids=str)
def test_simg2img_reads_what_we_write(tmp_path: Path, options: dict[str, bool]) -> None:
    data = mixed(tmp_path / "raw")
    (tmp_path / "ours").write_bytes(packed(data, **options))
    subprocess.run(["simg2img", tmp_path / "ours", tmp_path / "theirs"], check=True)
    assert (tmp_path / "theirs").read_bytes() == data


@need_tools
@pytest.mark.parametrize("block", ["4096", "1024"])
def test_we_read_what_img2simg_writes(tmp_path: Path, block: str) -> None:
    data = mixed(tmp_path / "raw")
    subprocess.run(["img2simg", tmp_path / "raw", tmp_path / "theirs", block], check=True)
    assert unpacked((tmp_path / "theirs").read_bytes()) == data
