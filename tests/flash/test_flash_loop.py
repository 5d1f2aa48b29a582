"""A real block device: opened by one only, past the page cache, its zeros made by the disk itself."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from board_shell import loop_disk
from flash_images import KIB, SIZE, SPANS, content, found, holds, make

from boardwright.errors import HostError, InputError
from boardwright.flash import devices, medium, run, source
from boardwright.flash.journal import Journal
from boardwright.image import bmap
from boardwright.sealed import bmap as sealed

IMAGE = content()
MIB = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[devices.Device]:
    with loop_disk(tmp_path / "backing", 8 * MIB) as path:
        yield next(d for d in devices.found() if d.path == path)


def test_it_is_written_and_no_stale_byte_is_left_between(disk: devices.Device, tmp_path: Path) -> None:
    opened = medium.open_device(disk)
    try:
        assert os.get_inheritable(opened.descriptor) is False
        run.flash(found(make(tmp_path, IMAGE)), opened, Journal(tmp_path / "x.json", "x"), marks=True)
    finally:
        opened.close()
    written = (tmp_path / "backing").read_bytes()
    assert holds(written, IMAGE)
    between = [(end, start) for (_, end), (start, _) in itertools.pairwise(SPANS) if end < start]
    assert between
    for start, end in between:
        assert written[start:end] == bytes(end - start)
    assert written[SIZE:-MIB] == b"\xaa" * (7 * MIB - SIZE)  # not the image's
    assert written[-MIB:] == bytes(MIB)


def test_what_our_own_map_leaves_out_costs_nothing(disk: devices.Device, tmp_path: Path) -> None:
    """Discarding takes a slow disk as long as writing, and our maps name the zeros that matter."""
    image = found(make(tmp_path, IMAGE))
    assert not image.bmap.whole
    assert bmap._OURS in sealed._HEAD.encode()
    opened = medium.open_device(disk)
    try:
        ours = source.Image(image.path, dataclasses.replace(image.bmap, whole=True))
        run.flash(ours, opened, Journal(tmp_path / "x.json", "x"))
    finally:
        opened.close()
    written = (tmp_path / "backing").read_bytes()
    assert holds(written, IMAGE)
    assert written[1152 * KIB : 1280 * KIB] == b"\xaa" * 128 * KIB


def test_somebody_else_has_it_open(disk: devices.Device, tmp_path: Path) -> None:
    first = medium.open_device(disk)
    try:
        with pytest.raises(InputError, match="is in use by another program or mount"):
            medium.open_device(disk)
    finally:
        first.close()
    medium.open_device(disk).close()
    assert (tmp_path / "backing").read_bytes() == b"\xaa" * (8 * MIB)


def test_a_mounted_disk_is_refused_twice(disk: devices.Device, tmp_path: Path) -> None:
    if not shutil.which("mke2fs"):
        pytest.skip("mke2fs is not installed")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", disk.path], check=True)
    (point := tmp_path / "mnt").mkdir()
    if subprocess.run(["mount", disk.path, point], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        now = next(d for d in devices.found() if d.name == disk.name)
        assert now.refusals == (f"{disk.name} is mounted at {point}",)
        with pytest.raises(InputError, match="is in use by another program or mount"):
            medium.open_device(disk)
    finally:
        subprocess.run(["umount", point], check=True)


def test_zeros_are_asked_of_the_disk_and_not_written(
    disk: devices.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = medium.open_device(disk)
    monkeypatch.setattr(medium.Opened, "write", lambda *_: pytest.fail("written"))
    try:
        opened.zero(MIB, 2 * MIB)
        opened.sync()
    finally:
        opened.close()
    kept = (tmp_path / "backing").read_bytes()
    assert kept[MIB : 2 * MIB] == bytes(MIB)
    assert kept[:MIB] + kept[2 * MIB :] == b"\xaa" * (7 * MIB)


class Spoil:
    """Told of the phases of a flash: does something to the file below when the first reading back begins."""

    def __init__(self, spoil: Callable[[], None]) -> None:
        self.spoil, self.spoilt = spoil, False

    def __call__(self, phase: str) -> Callable[[int, int], None]:
        if phase == "reading back" and not self.spoilt:
            self.spoilt = True
            self.spoil()
        return lambda *_: None


def spoilt(disk: devices.Device, tmp_path: Path, spoil: Callable[[], None]) -> run.Done:
    opened = medium.open_device(disk)
    image, record = found(make(tmp_path, IMAGE)), Journal(tmp_path / "x.json", "x")
    try:
        return run.flash(image, opened, record, Spoil(spoil))
    finally:
        opened.close()


def test_a_block_that_the_disk_kept_wrong_is_found_and_written_again(
    disk: devices.Device, tmp_path: Path
) -> None:
    def spoil() -> None:
        with (tmp_path / "backing").open("r+b") as file:
            file.seek(SPANS[-2][0] + 4096)
            file.write(b"\x99")

    assert spoilt(disk, tmp_path, spoil).rewritten == 1
    assert holds((tmp_path / "backing").read_bytes(), IMAGE)


def test_a_disk_that_cannot_read_part_of_it_is_read_twice_and_written_again(
    disk: devices.Device, tmp_path: Path
) -> None:
    """Behind the end of the file below the kernel answers EIO; a write makes it longer again."""
    done = spoilt(disk, tmp_path, lambda: os.truncate(tmp_path / "backing", SPANS[-3][0]))
    assert done.rewritten == 3
    assert holds((tmp_path / "backing").read_bytes().ljust(SIZE, b"\0"), IMAGE)


def test_a_disk_with_less_room_than_it_says(tmp_path: Path) -> None:
    """A file with holes on a file system of 2 MiB."""
    (point := tmp_path / "small").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", point]
    if not shutil.which("losetup") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with (point / "backing").open("wb") as file:
            file.truncate(8 * MIB)
        attach = ["losetup", "--find", "--show", point / "backing"]
        done = subprocess.run(attach, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no loop device: {done.stderr}")
        path = Path(done.stdout.strip())
        try:
            opened = medium.open_device(next(d for d in devices.found() if d.path == path))
            image = found(make(tmp_path, IMAGE))
            try:
                with pytest.raises(HostError, match="could not be written: No space left on device"):
                    run.flash(image, opened, Journal(tmp_path / "x.json", "x"))
            finally:
                opened.close()
            assert path.read_bytes()[:4096] == bytes(4096)
        finally:
            subprocess.run(["losetup", "--detach", path], check=True)
    finally:
        subprocess.run(["umount", point], check=True)


def test_a_block_device_is_read_past_the_page_cache(disk: devices.Device) -> None:
    import fcntl

    opened = medium.open_device(disk)
    try:
        assert fcntl.fcntl(opened.descriptor, fcntl.F_GETFL) & os.O_DIRECT
        opened.sync()
        assert fcntl.fcntl(opened.descriptor, fcntl.F_GETFL) & os.O_DIRECT
    finally:
        opened.close()
