"""A small file goes over the console and back, by a real shell; a broken transfer goes on where it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_real_shells import shell

from boardwright.console import transfer
from boardwright.errors import ProductError

DATA = os.urandom(2500) + b"\0\r\n\x03\x04'\"" + b"x" * 500


def test_there_and_back(tmp_path: Path) -> None:
    path = str(tmp_path / "it's here")
    steps: list[tuple[int, int]] = []
    with shell("sh", "-i") as console:
        transfer.push(console, DATA, path, lambda done, of: steps.append((done, of)))
        assert Path(path).read_bytes() == DATA
        assert steps[-1] == (len(DATA), len(DATA))
        assert transfer.pull(console, path) == DATA
        transfer.push(console, b"", path)
        assert transfer.pull(console, path) == b""


def test_what_arrived_is_not_sent_again_and_what_is_other_is(tmp_path: Path) -> None:
    path, steps = tmp_path / "f", list[int]()
    with shell("sh", "-i") as console:
        (tmp_path / "f.part").write_bytes(DATA[:1800])
        transfer.push(console, DATA, str(path), lambda done, of: steps.append(done))
        assert path.read_bytes() == DATA
        assert steps[0] == 2700
        (tmp_path / "f.part").write_bytes(b"other" * 100)
        transfer.push(console, DATA, str(path))
        assert path.read_bytes() == DATA


def test_what_cannot_be_written_or_read_is_told(tmp_path: Path) -> None:
    with shell("sh", "-i") as console:
        with pytest.raises(ProductError, match="cannot write"):
            transfer.push(console, b"x", f"{tmp_path}/there/is/none")
        with pytest.raises(ProductError, match="ended with"):
            transfer.pull(console, f"{tmp_path}/none")
        with pytest.raises(ValueError, match="at most"):
            transfer.push(console, bytes(transfer.MOST + 1), f"{tmp_path}/big")
