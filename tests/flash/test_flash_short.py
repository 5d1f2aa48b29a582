"""Calls that move less than was asked for, and a medium without room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from flash_images import content, found, holds, make

from boardwright.errors import HostError
from boardwright.flash import medium, run
from boardwright.flash.journal import Journal

IMAGE = content()


def flash(tmp_path: Path) -> run.Done:
    opened = medium.open_file(tmp_path / "card", len(IMAGE))
    try:
        return run.flash(found(make(tmp_path, IMAGE)), opened, Journal(tmp_path / "x.json", "x"))
    finally:
        opened.close()


def test_a_disk_that_takes_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: medium.Opened, data: memoryview, offset: int) -> int:
        return os.pwrite(self.descriptor, data[:4096], offset)

    def get(self: medium.Opened, into: memoryview, offset: int) -> int:
        return os.preadv(self.descriptor, [into[:4096]], offset)

    monkeypatch.setattr(medium.Opened, "_put", put)
    monkeypatch.setattr(medium.Opened, "_get", get)
    assert flash(tmp_path).rewritten == 0
    assert holds((tmp_path / "card").read_bytes(), IMAGE)


def test_a_medium_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(self: medium.Opened, data: memoryview, offset: int) -> int:
        if offset >= 2 * 2**20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(self.descriptor, data, offset)

    monkeypatch.setattr(medium.Opened, "_put", put)
    with pytest.raises(HostError, match=r"could not be written: No space left on device"):
        flash(tmp_path)
    assert (tmp_path / "card").read_bytes()[:4096] == bytes(4096)
