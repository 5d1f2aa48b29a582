"""`invoke align-hunt` on wrong requests: answered before anything is built or booted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from boardwright.errors import ExitStatus

ROOT = Path(__file__).parents[2]


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "invoke",
        "align-hunt",
        "--variant",
        "quick",
        "--program",
        "true",
        *words,
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["--gpu", "turk"], "no card 'turk'", "did you mean 'turks'?"),
        (["--gpu", "geforce"], "no card 'geforce'", "turks, verde, polaris10"),
        (
            ["--mesa", "patchd"],
            "expected patched, unpatched, image, a .tar or a .deb",
            "did you mean 'patched'?",
        ),
        (["--files", "/nowhere"], "/nowhere: --files: expected a directory", ""),
        (["--env", "DEBUG"], "--env: expected NAME=VALUE, found 'DEBUG'", ""),
        (["--seconds", "soon"], "--seconds: expected a whole number", ""),
    ],
)
def test_a_wrong_request_is_named_with_what_would_be_right(words: list[str], error: str, hint: str) -> None:
    done = asked(*words)
    assert done.returncode == ExitStatus.INPUT
    assert error in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
