"""Kind ``native``: what is compiled, and what changes the key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardwright.errors import InputError
from boardwright.kinds.context import Context
from boardwright.kinds.native import step
from boardwright.schema.board import Local
from boardwright.schema.project import load_project
from boardwright.schema.recipe import NativeRecipe

ROOT = Path(__file__).parents[2]


def lab(root: Path) -> tuple[Context, NativeRecipe]:
    project = load_project(root)
    recipe = project.recipe("lab")
    assert isinstance(recipe, NativeRecipe)
    return Context(project, project.board("rock5b"), Local()), recipe


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("boards", "recipes", "native", "patches", "bringup-tests"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def test_directories_become_libraries_and_files_programs() -> None:
    made = step(*lab(ROOT))
    assert {"libraries/align-hunt", "libraries/kms-standin", "programs/align-lab.c"} <= set(made.inputs)
    assert made.outputs == ("lab.tar",)
    assert made.environment == "tools-mesa"


def test_a_line_of_c_changes_the_step(project: Path) -> None:
    before = step(*lab(project)).inputs
    with (project / "native/align-hunt/sites.c").open("a") as file:
        file.write("/* later */\n")
    after = step(*lab(project)).inputs
    assert {name for name in after if after[name] != before[name]} == {"libraries/align-hunt"}


def test_a_directory_that_is_not_there_is_named(project: Path) -> None:
    shutil.rmtree(project / "native/kms-standin")
    with pytest.raises(InputError, match="no such file or directory"):
        step(*lab(project))
