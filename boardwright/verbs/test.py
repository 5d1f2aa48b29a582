"""``invoke test``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test(root: Path, e2e: bool, select: str) -> int:
    """Run pytest on the project: all but the slow tier, or without the end-to-end tests."""
    marks = "not slow" if e2e else "not slow and not e2e"
    command = [sys.executable, "-m", "pytest", "-m", marks, *(["-k", select] if select else [])]
    return subprocess.run(command, cwd=root, check=False).returncode
