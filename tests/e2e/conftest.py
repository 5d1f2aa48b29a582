"""The quick variant, built once a session by the command a user types."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import ROOT, invoke


@pytest.fixture(scope="session")
def quick() -> Path:
    """``out/rock5b-quick``, built."""
    done = invoke("build", "--board", "rock5b", "--variant", "quick")
    assert done.returncode == 0, done.stderr
    return ROOT / "out/rock5b-quick"
