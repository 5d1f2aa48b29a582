"""The environment in which the C code of these tests is compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cross() -> Path:
    """The environment tools-mesa, which has both C libraries, arm64's and its own; skips without it."""
    root = os.environ.get("BOARDWRIGHT_TEST_CROSS", "")
    if not root or not (Path(root) / "usr/bin/aarch64-linux-gnu-gcc").exists():
        pytest.skip("BOARDWRIGHT_TEST_CROSS names no environment with aarch64-linux-gnu-gcc")
    return Path(root)
