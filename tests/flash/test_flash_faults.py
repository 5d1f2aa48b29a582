"""A flash under faults: nothing wrong is taken for done, and a cut-off write never looks bootable."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from flash_images import KIB, SIZE, SPANS, Memory, PowerCut, content, found, holds, make

from boardwright.errors import ExitStatus, HostError, IntegrityError
from boardwright.flash import capacity, run, write
from boardwright.flash.journal import Journal
from boardwright.flash.source import Image

IMAGE = content()


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return found(make(tmp_path, IMAGE))


def flash(image: Image, medium: Memory, tmp_path: Path) -> run.Done:
    return run.flash(image, medium, Journal(tmp_path / "state/x.json", "image"))


def test_mapped_ranges_are_written_and_nothing_between_them(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    done = flash(image, medium, tmp_path)
    assert holds(medium.durable, IMAGE)
    assert (done.rewritten, done.resumed, done.mapped_bytes) == (0, False, sum(b - a for a, b in SPANS))
    assert medium.durable[1152 * KIB : 1280 * KIB] == b"\xaa" * 128 * KIB
    assert not (tmp_path / "state/x.json").exists()


def test_stale_bytes_are_gone_where_a_partition_table_would_be_looked_for(
    image: Image, tmp_path: Path
) -> None:
    medium = Memory(SIZE + 2**22)
    flash(image, medium, tmp_path)
    assert holds(medium.durable, IMAGE)
    assert medium.durable[-(2**20) :] == bytes(2**20)
    assert medium.durable[512 * KIB : 896 * KIB] == bytes(384 * KIB)


def test_power_cut_at_every_write_and_resumed(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_KEEP", 256 * KIB)
    monkeypatch.setattr(write, "_KEEP_SECONDS", 0.0)
    counted = Memory()
    flash(image, counted, tmp_path)
    resumed, saved, midway = 0, 0, 0
    for cut in range(len(counted.writes)):
        medium = Memory()
        medium.cut = cut
        with pytest.raises(PowerCut):
            flash(image, medium, tmp_path)
        if cut:  # before the first write the old content is whole
            bootable = any(medium.durable[:4096]) and medium.durable[:4096] == IMAGE[:4096]
            assert not bootable or holds(medium.durable, IMAGE), cut
        (record := Journal(tmp_path / "state/x.json", "image")).load()
        midway += 0 < record.done < len(SPANS)
        again = Memory(old=bytes(medium.durable))
        done = flash(image, again, tmp_path)
        assert holds(again.durable, IMAGE), cut
        resumed += done.resumed
        saved += len(counted.writes) - len(again.writes)
    assert resumed >= len(counted.writes) - 4
    assert saved > 3 * len(counted.writes)
    assert midway > 3


def test_the_first_block_is_the_last_write(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    flash(image, medium, tmp_path)
    assert medium.writes[0] == (0, 2**20)
    assert medium.writes[-1] == (0, 4096)
    assert all(end > 2**20 or start < 4096 for start, end in medium.writes[:-8])


def test_a_range_that_cannot_be_written_is_tried_twice_and_named(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    medium.broken = (2000 * KIB, 2001 * KIB, errno.EIO)
    with pytest.raises(HostError, match=r"bytes 1835008 to 2097152 could not be written: Input") as raised:
        flash(image, medium, tmp_path)
    assert (medium.failures, raised.value.exit_status) == (2, ExitStatus.HOST)
    assert medium.seen[: 2**20] == bytes(2**20)
    medium.broken = None
    assert flash(image, medium, tmp_path).resumed
    assert holds(medium.durable, IMAGE)


def test_a_card_that_is_pulled_out(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    medium.broken = (2000 * KIB, 2001 * KIB, errno.ENODEV)
    with pytest.raises(HostError, match="the medium went away while bytes 1835008"):
        flash(image, medium, tmp_path)
    assert medium.failures == 1


def test_a_block_that_was_corrupted_once_is_written_again(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    medium.flip, medium.flips = 1600 * KIB, 1
    assert flash(image, medium, tmp_path).rewritten == 1
    assert holds(medium.durable, IMAGE)


def test_a_block_that_stays_corrupt_is_named(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    medium.flip, medium.flips = 1600 * KIB, 99
    with pytest.raises(IntegrityError, match="twice, in 1 ranges: bytes 1572864 to 1835008: expected"):
        flash(image, medium, tmp_path)
    assert medium.durable[: 2**20] == bytes(2**20)


def test_a_range_that_cannot_be_read_back_is_named(image: Image, tmp_path: Path) -> None:
    medium = Memory()
    medium.unreadable = (1600 * KIB, 1601 * KIB)
    with pytest.raises(IntegrityError, match="bytes 1572864 to 1835008: reading failed: Input"):
        flash(image, medium, tmp_path)


def test_a_card_changed_elsewhere_while_a_flash_waited_to_go_on(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_KEEP", 256 * KIB)
    monkeypatch.setattr(write, "_KEEP_SECONDS", 0.0)
    medium = Memory()
    medium.cut = 12
    with pytest.raises(PowerCut):
        flash(image, medium, tmp_path)
    other = Memory(old=b"\xbb" * SIZE)
    done = flash(image, other, tmp_path)
    assert done.resumed
    assert done.rewritten > 0
    assert holds(other.durable, IMAGE)


class Wrapping(Memory):
    """Claims ``size`` and holds ``real``; what is behind goes to the start again."""

    real = 40 * 2**20

    def write(self, offset: int, data: memoryview | bytes) -> None:
        super().write(offset % self.real, data)

    def read(self, offset: int, into: memoryview) -> None:
        super().read(offset % self.real, into)


class Dropping(Wrapping):
    def write(self, offset: int, data: memoryview | bytes) -> None:
        if offset < self.real:
            Memory.write(self, offset, data)

    def read(self, offset: int, into: memoryview) -> None:
        if offset < self.real:
            Memory.read(self, offset, into)


@pytest.mark.parametrize(("kind", "real"), [(Wrapping, 32), (Dropping, 32), (Dropping, 40)])
def test_a_card_that_claims_more_than_it_holds(kind: type[Wrapping], real: int) -> None:
    medium = kind(128 * 2**20)
    medium.real = real * 2**20
    before = bytes(medium.seen)
    with pytest.raises(HostError, match="does not hold the 134217728 bytes it claims"):
        capacity.check(medium)
    assert medium.seen == before


def test_an_honest_card_keeps_what_it_held() -> None:
    medium = Memory(64 * 2**20 + 512)
    capacity.check(medium)
    assert medium.seen == b"\xaa" * medium.size
