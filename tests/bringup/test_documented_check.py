"""The check that docs/bringup.md shows: it is what it says, and it runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from played import BOARD, ROOT, record

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.console.shell import Result
from boardwright.errors import ExitStatus


@pytest.mark.parametrize(
    ("load", "status", "outcome"),
    [
        ("0.12", ExitStatus.OK, "pass"),
        ("3.50", ExitStatus.PRODUCT, "fail"),
        ("much", ExitStatus.HOST, "error"),
    ],
)
def test_the_documented_check_runs(tmp_path: Path, load: str, status: int, outcome: str) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/bringup.md").read_text(), re.DOTALL)
    assert len([line for line in text.splitlines() if line.strip()]) <= 10
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / f"test_documented_{outcome}.py").write_text(text)
    answer = Result(f"{load} 0.10 0.05 1/123 456\n", 0)
    recording = record(tmp_path / "made.cast", {"cat /proc/loadavg": answer})
    options = Options(target="replay", recording=recording, tests=checks)
    assert bringup(None, BOARD, {}, Path("/nowhere"), tmp_path, options) == status
    (check,) = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    assert (check["check"], check["outcome"]) == ("system is idle", outcome)
    if outcome == "pass":
        assert check["measurements"][0]["unit"] == "processes"
        assert check["lines"] == [answer.line]
