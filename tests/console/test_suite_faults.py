"""What the suite says of every script with every fault: its outcome, and the state by name in its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from board_faults import CASES, SCRIPTS, SHELL, cable
from test_fault_matrix import LAB

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.console import bootscript
from boardwright.errors import ExitStatus
from boardwright.schema.project import Project

ROOT = Path(__file__).parents[2]
BOARD = Project(ROOT).board("rock5b")
ASKS = """
def test_release(console, check):
    "the kernel has a release"
    check.measure("release", console.run("uname -r", 300).line)
"""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_outcome_of_the_suite(path: Path, name: str, tmp_path: Path) -> None:
    script, case = bootscript.load(path), CASES[name]
    (tmp_path / "root").mkdir()
    port, clock = cable(script, case, root=tmp_path / "root")
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "test_boot.py").symlink_to(ROOT / "bringup-tests/test_boot.py")
    (checks / f"test_release_{tmp_path.name}.py").write_text(ASKS)
    changed = case.change(script)
    options = Options(
        "scripted", 3600, case.silence, user=changed.user, password=case.password or changed.password,
        tests=checks, only="boots to a shell,release_", connect=lambda _: port, clock=clock,
        strategy=case.strategy,
    )  # fmt: skip
    status = bringup(None, BOARD, {}, tmp_path, tmp_path / "out", options)
    found = {c["check"]: c for c in json.loads((tmp_path / "out/bringup.json").read_text())["checks"]}
    values = {m["name"]: m["value"] for check in found.values() for m in check["measurements"]}
    state = values.get("state", SHELL)
    assert state in case.expected, found
    outcomes = {check["outcome"] for check in found.values()} - {"skip"}
    if state == SHELL:
        assert (outcomes, status) == ({"pass"}, ExitStatus.OK)
        assert values["release"] == script.answers["uname -r"].line
    else:
        assert ("error" if state in LAB else "fail") in outcomes, found
        assert ("fail" if state in LAB else "error") not in outcomes, found
        assert status == (ExitStatus.HOST if state in LAB else ExitStatus.PRODUCT)
        assert state in (tmp_path / "out/report.html").read_text()
