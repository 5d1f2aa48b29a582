"""Verbs run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def invoke(*words: str, timeout: float = 3000) -> subprocess.CompletedProcess[str]:
    """Run a verb as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "invoke", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
