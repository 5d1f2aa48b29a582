"""What the linters say is part of the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["mypy"]], ids=["ruff", "mypy"])
def test_clean(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_registry_host_is_named_in_code_or_data() -> None:
    """Mirrors come from the host's configuration (docs/architecture.md, decision 6)."""
    named = subprocess.run(
        ["git", "grep", "-nIE", r"(deb|ftp|security|snapshot)\.debian\.org|archive\.ubuntu\.com|pypi\.org"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert [line for line in named.splitlines() if not line.startswith("tests/test_linters.py")] == []


def test_every_verb_shows_an_example() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "invoke", "--list", "--list-format=json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    for verb in json.loads(listed.stdout)["tasks"]:
        shown = subprocess.run(
            [sys.executable, "-m", "invoke", "--help", verb["name"]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Example: invoke" in " ".join(shown.stdout.split()), verb["name"]


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their bare names, and collects nothing when two are alike."""
    names = sorted(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert sorted(set(names)) == names
