"""Fixtures of the build tests: a tiny root made once, and a bench that builds with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import builds
import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.make_root(tmp_path_factory.mktemp("tiny") / "root")


@pytest.fixture
def area(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where programs may run, else on the disk, which is slower."""
    if not _is_fit(MEMORY):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="boardwright-test.", dir=MEMORY))
    yield made
    shutil.rmtree(made)


def _is_fit(place: Path) -> bool:
    if not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > 1 << 30


@pytest.fixture
def bench(area: Path, tiny_root: Path) -> builds.Bench:
    made = builds.Bench(area / "cache")
    made.put_root(tiny_root)
    return made
