"""Whole builds of the project `native/`, each made once a session."""

from __future__ import annotations

import pytest
from sealed_builds import ARM64, EMULATOR, Lab, build


@pytest.fixture(scope="session")
def x86_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    made = Lab(tmp_path_factory.mktemp("native-x86"), ())
    build(made.out)
    return made


@pytest.fixture(scope="session")
def arm64_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    made = Lab(tmp_path_factory.mktemp("native-arm64"), EMULATOR)
    build(made.out, ARM64)
    return made
