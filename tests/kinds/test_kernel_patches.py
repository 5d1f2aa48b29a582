"""A kernel's patches as inputs: only those of its line, so a port of one line changes no other key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardwright.build.plan import Plan, make
from boardwright.build.step import LocalFile, Step, Text
from boardwright.errors import InputError
from boardwright.kinds.board import image_targets, steps
from boardwright.kinds.context import Context
from boardwright.kinds.kernel import absent_topics, topics
from boardwright.schema.board import Local
from boardwright.schema.project import load_project

ROOT = Path(__file__).parents[2]
SERIES = "[7.3]\n0001-a.patch\n[6.12]\n0001-a.6.12.patch\n[6.1]\nnone: no such driver\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's own board, whose kernel asks for topic ``dma`` only."""
    for name in ("boards", "recipes", "overlays"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    topic = tmp_path / "patches/kernel/dma"
    topic.mkdir(parents=True)
    for name in ("patches/mesa", "native", "tools", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    (topic / "0001-a.patch").write_text("for 7.3\n")
    (topic / "0001-a.6.12.patch").write_text("for 6.12\n")
    (topic / "series").write_text(SERIES)
    recipe = tmp_path / "recipes/linux-7.3.yaml"
    lines = [line for line in recipe.read_text().splitlines() if not line.startswith("patches:")]
    recipe.write_text("\n".join([*lines, "patches: [dma]", ""]))
    return tmp_path


def context(root: Path) -> Context:
    project = load_project(root)
    return Context(project, project.board("rock5b"), Local())


def plan(root: Path) -> Plan:
    asked = context(root)
    return make(steps(asked), image_targets(asked))


def kernel(root: Path) -> Step:
    step = plan(root)["linux-7.3"].step
    assert isinstance(step, Step)
    return step


def without_board_topics(root: Path) -> None:
    board = root / "boards/rock5b/board.yaml"
    lines = [line for line in board.read_text().splitlines() if not line.strip().startswith("patches:")]
    board.write_text("\n".join([*lines, ""]))


def test_the_inputs_are_the_files_of_the_line_and_a_plain_series(project: Path) -> None:
    without_board_topics(project)
    inputs = {name: value for name, value in kernel(project).inputs.items() if name.startswith("patches/")}
    assert inputs.keys() == {"patches/dma/series", "patches/dma/0001-a.patch"}
    assert inputs["patches/dma/series"] == Text("0001-a.patch\n")
    assert isinstance(inputs["patches/dma/0001-a.patch"], LocalFile)
    assert kernel(project).variables["PATCHES"] == "dma"


@pytest.mark.parametrize("line", ["6.12", "6.1"])
def test_another_lines_port_does_not_change_the_key(project: Path, line: str) -> None:
    without_board_topics(project)
    before = plan(project)["linux-7.3"].key
    topic = project / "patches/kernel/dma"
    if line == "6.12":
        (topic / "0001-a.6.12.patch").write_text("better\n")
    else:
        (topic / "series").write_text(SERIES.replace("no such driver", "never had it"))
    assert plan(project)["linux-7.3"].key == before
    (topic / "0001-a.patch").write_text("better\n")
    assert plan(project)["linux-7.3"].key != before


def test_a_topic_absent_on_the_line_contributes_nothing_and_the_plan_says_why(project: Path) -> None:
    without_board_topics(project)
    topic = project / "patches/kernel/dma"
    (topic / "series").write_text(
        "[7.3]\nnone: upstream since 7.2\n[6.12]\n0001-a.patch\n0001-a.6.12.patch\n"
    )
    step = kernel(project)
    assert not [name for name in step.inputs if name.startswith("patches/")]
    assert step.variables["PATCHES"] == ""
    assert "0 patch topics (without dma: upstream since 7.2)" in step.title
    assert topics(context(project)) == []
    assert absent_topics(context(project)) == {"dma": "upstream since 7.2"}


def test_a_topic_that_does_not_say_what_the_line_gets_is_an_error(project: Path) -> None:
    without_board_topics(project)
    series = project / "patches/kernel/dma/series"
    series.write_text("[6.12]\n0001-a.patch\n0001-a.6.12.patch\n")
    with pytest.raises(InputError, match=r"for line 7\.3, found neither") as caught:
        plan(project)
    assert str(caught.value.place) == "patches/kernel/dma/series"


def test_an_unknown_topic_is_answered_with_the_nearest(project: Path) -> None:
    without_board_topics(project)
    recipe = project / "recipes/linux-7.3.yaml"
    recipe.write_text(recipe.read_text().replace("[dma]", "[dmaa]"))
    with pytest.raises(InputError, match="there is no patch topic 'dmaa'") as caught:
        plan(project)
    assert caught.value.hint == "did you mean 'dma'?"
