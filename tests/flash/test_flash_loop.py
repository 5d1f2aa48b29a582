"""A real block device: opened by one only, past the page cache, its zeros made by the disk itself."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_shell import loop_disk
from flash_images import SIZE, SPANS, content, found, holds, make

from boardwright.errors import InputError
from boardwright.flash import devices, medium, run
from boardwright.flash.journal import Journal

IMAGE = content()
MIB = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[devices.Device]:
    with loop_disk(tmp_path / "backing", 8 * MIB) as path:
        yield next(d for d in devices.found() if d.path == path)


def test_it_is_written_read_back_and_no_stale_byte_is_left_between(
    disk: devices.Device, tmp_path: Path
) -> None:
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


def test_a_block_device_is_read_past_the_page_cache(disk: devices.Device) -> None:
    import fcntl

    opened = medium.open_device(disk)
    try:
        assert fcntl.fcntl(opened.descriptor, fcntl.F_GETFL) & os.O_DIRECT
        opened.sync()
        assert fcntl.fcntl(opened.descriptor, fcntl.F_GETFL) & os.O_DIRECT
    finally:
        opened.close()
