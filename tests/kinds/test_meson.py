"""Kind ``meson``: control fields known before the build, and a step without a topic beside the whole one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from boardwright.kinds.context import Context
from boardwright.kinds.debs import control, file_name, version
from boardwright.kinds.meson import step
from boardwright.schema.board import Local
from boardwright.schema.lock import Lock
from boardwright.schema.project import load_project
from boardwright.schema.recipe import DebianPackage, MesonRecipe

ROOT = Path(__file__).parents[2]


@pytest.fixture
def context() -> Context:
    project = load_project(ROOT)
    return Context(project, project.board("rock5b"), Local())


def mesa(context: Context) -> MesonRecipe:
    recipe = context.project.recipe("mesa-25.0")
    assert isinstance(recipe, MesonRecipe)
    return recipe


def locked(context: Context, source_version: str) -> Lock:
    """Mesa's lock, as if Debian's source were of this version."""
    lock = context.lock("mesa-25.0")
    files = [
        msgspec.structs.replace(f, version=source_version) if f.architecture == "source" else f
        for f in lock.files
    ]
    return msgspec.structs.replace(lock, files=files)


@pytest.mark.skipif(not shutil.which("dpkg"), reason="needs dpkg")
def test_our_version_lies_between_debians_and_its_next(context: Context) -> None:
    for debian, following in (("25.0.7-2", "25.0.7-2+deb13u1"), ("25.0.7-2+deb13u1", "25.0.7-2+deb13u2")):
        ours = version(mesa(context), locked(context, debian))
        for left, right in ((debian, ours), (ours, following)):
            subprocess.run(["dpkg", "--compare-versions", left, "lt", right], check=True)


def test_a_file_name_has_no_epoch(context: Context) -> None:
    recipe = msgspec.structs.replace(mesa(context), deb=DebianPackage("x", "d"))
    assert file_name(recipe, locked(context, "1:2.0-1")) == "x_2.0-1+boardwright_arm64.deb"


def test_the_package_provides_at_debians_version_what_it_replaces(context: Context) -> None:
    lines = control(mesa(context), context.lock("mesa-25.0")).splitlines()
    theirs = next(f.version for f in context.lock("mesa-25.0").files if f.architecture == "source")
    provides = next(line for line in lines if line.startswith("Provides: "))
    assert f"libgbm1 (= {theirs})" in provides
    assert f"Version: {theirs}+boardwright" in lines


def test_without_a_topic_there_is_a_step_of_another_name_and_no_package(context: Context) -> None:
    recipe = mesa(context)
    whole, part = step(context, recipe), step(context, recipe, without=("aligned-access",))
    assert part.name == "mesa-25.0-without-aligned-access"
    assert part.outputs == ("tree.tar",)
    assert "aligned-access" not in part.variables["PATCHES"].split()
    assert len(whole.outputs) == 2
    assert part.kept_tree != whole.kept_tree
