"""Kind ``project``: our own C code as packages, of the version it says itself, from the parts named only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boardwright.build.step import LocalFile, Text
from boardwright.kinds.context import Context
from boardwright.kinds.project import step
from boardwright.schema.board import Local
from boardwright.schema.project import load_project
from boardwright.schema.recipe import ProjectRecipe

ROOT = Path(__file__).parents[2]


def recipe(context: Context, name: str) -> ProjectRecipe:
    found = context.project.recipe(name)
    assert isinstance(found, ProjectRecipe)
    return found


@pytest.fixture
def context() -> Context:
    project = load_project(ROOT)
    return Context(project, project.board("rock5b"), Local())


@pytest.mark.parametrize("name", ["npu-matmul", "llama-runner"])
def test_the_package_has_the_version_that_the_project_has(context: Context, name: str) -> None:
    text = (ROOT / "native/meson.build").read_text()
    found = re.search(r"version: '([^']+)'", text)
    assert found
    made = step(context, recipe(context, name))
    assert made.outputs == (f"{name}_{found[1]}+boardwright_arm64.deb",)
    control = made.inputs["control"]
    assert isinstance(control, Text)
    assert f"Version: {found[1]}+boardwright\n" in control.content


def test_what_the_library_does_not_read_is_not_in_its_key(context: Context) -> None:
    made = step(context, recipe(context, "npu-matmul"))
    parts = {name for name, given in made.inputs.items() if isinstance(given, LocalFile)}
    assert "repository/native/npu-matmul" in parts
    assert not [name for name in parts if "llama" in name or "hunt" in name]
