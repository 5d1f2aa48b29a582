"""The verbs results and report, on a history of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from boardwright.errors import ExitStatus, InputError
from boardwright.results.history import History
from boardwright.verbs.report import write
from boardwright.verbs.results import compare_runs, history_file, results


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def record(rate: float, outcome: str = "pass") -> dict[str, Any]:
    rates = [
        {"name": "rate", "value": rate, "expected": None, "unit": "fps", "better": "higher", "spread": 0.5}
    ]
    check = {"check": "kmscube", "outcome": outcome, "evidence": "hardware", "measurements": rates}
    return {
        "record": 2, "board": "rock5b", "target": "serial", "started": "2026-12-01T00:00:00+00:00",
        "image": {"sha256": "ab" * 32}, "evidence": "hardware", "exit_status": 0, "checks": [check],
    }  # fmt: skip


def test_an_empty_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert results("", 10, False) == ExitStatus.OK
    assert "no runs yet" in capsys.readouterr().err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    for rate in (60, 61):
        History(history_file()).add(record(rate))
    results("", 10, False)
    first, second = capsys.readouterr().out.splitlines()
    assert (first.split()[0], second.split()[0]) == ("2", "1")
    assert "abababababababab" in first
    assert "1 pass" in first
    results("rock5b", 1, True)
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [2]


def test_the_lists_columns_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    for evidence in ("hardware", "emulated modelled"):
        History(history_file()).add({**record(60), "evidence": evidence})
    results("", 10, False)
    first, second = capsys.readouterr().out.splitlines()
    assert first.index("abababab") == second.index("abababab")


@pytest.mark.parametrize(("after", "status", "words"), [(60.3, 0, "0 worse"), (50.0, 1, "WORSE")])
def test_compare(capsys: pytest.CaptureFixture[str], after: float, status: int, words: str) -> None:
    for rate in (60.0, after):
        History(history_file()).add(record(rate))
    assert compare_runs("last~1", "last", "", False) == status
    assert words in capsys.readouterr().out
    compare_runs("1", "2", "", True)
    assert json.loads(capsys.readouterr().out)["rates"] == 1


def test_a_run_that_there_is_not() -> None:
    with pytest.raises(InputError, match="no run 'last'"):
        compare_runs("last", "last~1", "", False)


def test_the_page_of_the_last_run_and_of_one_in_the_history(tmp_path: Path) -> None:
    out = tmp_path / "bringup"
    with pytest.raises(InputError, match="not there yet"):
        write(out, "", "", "")
    out.mkdir()
    (out / "bringup.json").write_text(json.dumps(record(60)))
    (out / "console.log").write_text("    1.000  hello\n")
    write(out, "", "", "")
    assert "hello" in (out / "report.html").read_text()
    History(history_file()).add(record(61))
    write(out, "last", "rock5b", str(tmp_path / "deep/page.html"))
    assert "61 fps" in (tmp_path / "deep/page.html").read_text()
    (out / "bringup.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        write(out, "", "", "")
