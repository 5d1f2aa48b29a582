"""The history of runs: several writers, lookups by word, and files that are none of ours."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boardwright.errors import HostError, InputError
from boardwright.results.history import SCHEMA, History

ROOT = Path(__file__).parents[2]


def record(image: str = "ab" * 32, board: str = "rock5b") -> dict[str, Any]:
    return {
        "record": 2, "image": {"sha256": image}, "lock": {"sha256": "cd" * 32}, "board": board,
        "target": "qemu",
        "evidence": "emulated", "started": "2026-12-01T00:00:00+00:00", "exit_status": 0, "checks": [],
    }  # fmt: skip


def test_runs_come_back_newest_first(tmp_path: Path) -> None:
    history = History(tmp_path / "deep/below/history.sqlite3")
    assert [history.add(record()), history.add(record(board="m4n")), history.add(record("ef" * 32))] == [
        1,
        2,
        3,
    ]
    assert [kept.number for kept in history.runs()] == [3, 2, 1]
    assert [kept.number for kept in history.runs(board="rock5b")] == [3, 1]
    assert [kept.number for kept in history.runs(image="abab")] == [2, 1]
    assert history.runs(limit=1)[0].record == record("ef" * 32)


@pytest.mark.parametrize(
    ("word", "number"), [("1", 1), ("last", 3), ("last~2", 1), ("abab", 2), ("ef" * 32, 3)]
)
def test_a_run_is_found_by_a_word(tmp_path: Path, word: str, number: int) -> None:
    history = History(tmp_path / "history.sqlite3")
    for one in (record(), record(board="m4n"), record("ef" * 32)):
        history.add(one)
    assert history.find(word).number == number


@pytest.mark.parametrize("word", ["9", "last~7", "0123", "", "%", "'; DROP TABLE run; --"])
def test_no_such_run(tmp_path: Path, word: str) -> None:
    history = History(tmp_path / "history.sqlite3")
    history.add(record())
    with pytest.raises(InputError, match="no run"):
        history.find(word)
    assert len(history.runs()) == 1


def test_last_is_of_the_board(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    history.add(record())
    history.add(record(board="m4n"))
    assert history.find("last", board="rock5b").number == 1


WRITER = """
import sys
sys.path.insert(0, sys.argv[1] + "/tests/results"); sys.path.insert(0, sys.argv[1])
from pathlib import Path
from boardwright.results.history import History
from test_history import record
for _ in range(20):
    History(Path(sys.argv[2])).add(record())
"""


def test_several_runs_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(ROOT), str(path)], stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    ends = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], ends
    assert [kept.number for kept in History(path).runs(limit=100)] == list(range(80, 0, -1))


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    History(path).add(record())
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    with pytest.raises(InputError, match=f"version {SCHEMA} at most, found {SCHEMA + 1}"):
        History(path)


def test_a_file_that_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    path.write_text("no database at all, but long enough to be read as the head of one" * 20)
    with pytest.raises(HostError, match="cannot be used"):
        History(path)
    assert path.read_text().startswith("no database")
