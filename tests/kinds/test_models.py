"""Kind ``models``: what ``local.yaml`` asks for is held to a SHA-256, whoever supplies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardwright.build.step import Step
from boardwright.errors import InputError
from boardwright.kinds import models
from boardwright.kinds.board import steps
from boardwright.kinds.context import Context
from boardwright.schema.board import Local, OwnModel
from boardwright.schema.project import load_project
from boardwright.schema.recipe import ModelsRecipe

ROOT = Path(__file__).parents[2]
MINE = "0" * 64


def context(**asked: OwnModel) -> Context:
    project = load_project(ROOT)
    wanted = {name.replace("_", "."): own for name, own in asked.items()}
    return Context(project, project.board("rock5b"), Local(models=wanted))


def test_nothing_is_asked_for_and_nothing_comes() -> None:
    assert models.inputs(context()) == {}


def test_a_published_file_is_fetched_by_its_digest() -> None:
    recipe = context().project.recipe("models")
    assert isinstance(recipe, ModelsRecipe)
    known = recipe.models["stories15M.bin"]
    (name, download), *others = models.inputs(context(stories15M_bin=OwnModel())).items()
    assert (name, others) == ("models/opt/models/stories15M.bin", [])
    assert (download.path, download.size, download.sha256) == (known.url, known.size, known.sha256)


def test_a_file_of_the_users_is_held_to_the_published_digest_too() -> None:
    recipe = context().project.recipe("models")
    assert isinstance(recipe, ModelsRecipe)
    (download,) = models.inputs(context(stories15M_bin=OwnModel(path="/data/it"))).values()
    assert (download.path, download.sha256) == ("/data/it", recipe.models["stories15M.bin"].sha256)


def test_a_digest_of_the_users_stands_before_ours() -> None:
    (download,) = models.inputs(context(stories42M_bin=OwnModel(sha256=MINE))).values()
    assert (download.size, download.sha256) == (0, MINE)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"stories15_bin": OwnModel()}, "no model 'stories15.bin'"),
        ({"stories42M_bin": OwnModel()}, "the SHA-256 of stories42M.bin is not known"),
        ({"mine_bin": OwnModel(path="mine.bin")}, "the SHA-256 of mine.bin is not known"),
    ],
)
def test_what_cannot_be_held_to_a_digest_is_refused(asked: dict[str, OwnModel], told: str) -> None:
    with pytest.raises(InputError, match=told):
        models.inputs(context(**asked))


def test_the_root_gets_them() -> None:
    made = {step.name: step for step in steps(context(stories15M_bin=OwnModel()))}
    root = made["rootfs-radeon"]
    assert isinstance(root, Step)
    assert "models/opt/models/stories15M.bin" in root.inputs
