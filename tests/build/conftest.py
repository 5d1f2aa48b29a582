"""Fixtures of the build tests: a tiny root made once, and a bench that builds with it."""

from __future__ import annotations

from pathlib import Path

import builds
import pytest


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.make_root(tmp_path_factory.mktemp("tiny") / "root")


@pytest.fixture
def bench(tmp_path: Path, tiny_root: Path) -> builds.Bench:
    made = builds.Bench(tmp_path / "cache")
    made.put_root(tiny_root)
    return made
