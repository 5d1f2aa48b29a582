"""Kind ``native``: what is compiled, and what changes the key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardwright.errors import InputError
from boardwright.kinds.board import steps
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
    for name in ("boards", "recipes", "native", "overlays", "patches", "bringup-tests"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for name in ("tools", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
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


def test_a_lab_is_planned_when_it_is_asked_for_and_not_with_the_image() -> None:
    context, _ = lab(ROOT)
    assert "lab" not in {made.name for made in steps(context)}
    assert {"lab", "tools-mesa"} <= {made.name for made in steps(context, ["lab"])}


def test_mesa_without_its_topic_is_a_step_beside_the_image() -> None:
    context, _ = lab(ROOT)
    name = "mesa-25.0-without-aligned-access"
    assert name in {made.name for made in steps(context, [name])}
    assert name not in {made.name for made in steps(context, ["mesa-25.0"])}


def test_a_lab_can_be_built_while_a_patch_series_is_in_the_making(project: Path) -> None:
    (project / "patches/mesa/aligned-access/0099-later.patch").write_text("not in the series\n")
    loaded = load_project(project)
    context = Context(loaded, loaded.board("rock5b", "quick"), Local(), "quick")
    assert "lab" in {made.name for made in steps(context, ["lab"])}
