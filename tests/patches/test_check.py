"""What `patch check` asks of the sandbox, and how it tells what came of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardwright.build.plan import Plan
from boardwright.build.step import Step, Text
from boardwright.kinds.context import Context
from boardwright.patches.check import Object, plan, report
from boardwright.patches.lines import Line, all_lines
from boardwright.schema.board import Local
from boardwright.schema.project import load_project

ROOT = Path(__file__).parents[2]
SERIES = "[7.3 6.12]\n0001-a.patch\n[6.1]\n0001-a.6.1.patch\n[5.10]\nnone: why not\n"
STEP = "patch-check-linux-{}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's own recipes with two topics, ``early`` before ``late``."""
    for name in ("boards", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for topic in ("early", "late"):
        directory = tmp_path / "patches/kernel" / topic
        directory.mkdir(parents=True)
        (directory / "series").write_text(SERIES)
        for name in ("0001-a.patch", "0001-a.6.1.patch"):
            (directory / name).write_text(f"{topic} {name}\n")
    (tmp_path / "patches/kernel/order").write_text("early\nlate\n")
    return tmp_path


def line(root: Path, name: str) -> Line:
    return next(
        one for one in all_lines(load_project(root)) if (one.collection, one.name) == ("kernel", name)
    )


def planned(root: Path, name: str, topic: str = "") -> Plan:
    project = load_project(root)
    context = Context(project, project.board("rock5b"), Local())
    return plan(context, line(root, name), topic)


def step(root: Path, name: str, topic: str = "") -> Step:
    found = planned(root, name, topic)[STEP.format(name)].step
    assert isinstance(found, Step)
    return found


def test_every_topic_is_applied_in_order_and_compiled(project: Path) -> None:
    found = step(project, "7.3")
    assert found.variables["TOPICS"] == found.variables["CHECKED"] == "early late"
    assert found.variables["CONFIG"] == "patches.config patches-7.3.config"
    assert found.inputs["patches/late/series"] == Text("0001-a.patch\n")
    assert found.environment == "tools-cross"


def test_one_topic_is_compiled_on_top_of_those_before_it(project: Path) -> None:
    found = step(project, "6.12", "late")
    assert (found.variables["TOPICS"], found.variables["CHECKED"]) == ("early late", "late")
    assert found.variables["CONFIG"] == "patches.config"
    found = step(project, "6.12", "early")
    assert found.variables["TOPICS"] == "early"
    assert not [name for name in found.inputs if name.startswith("patches/late")]


def test_only_patches_of_the_line_change_its_key(project: Path) -> None:
    def keys() -> dict[str, str]:
        return {name: planned(project, name)[STEP.format(name)].key for name in ("7.3", "6.12", "6.1")}

    before = keys()
    (project / "patches/kernel/late/0001-a.6.1.patch").write_text("better\n")
    after = keys()
    assert {name for name in before if before[name] != after[name]} == {"6.1"}


def test_each_line_keeps_a_tree_of_its_own(project: Path) -> None:
    trees = {step(project, name).kept_tree for name in ("7.3", "6.12", "6.1", "5.10")}
    assert len(trees) == 4
    assert "linux-7.3" not in trees, "the kernel's own tree holds what a build compiled"


def test_the_report_counts_by_topic_and_shows_what_the_compiler_said(project: Path) -> None:
    objects = [
        Object("a.o", "a.c", ("early",), "ok", ""),
        Object("b.o", "b.c", ("early", "late"), "warning", "b.c:3:1: warning: unused 'x'\n"),
        Object("c.o", "c.c", ("late",), "unreached", ""),
        Object("d.o", "d.c", ("early", "last"), "skipped", ""),
        Object("e.o", "e.c", ("last",), "ok", ""),
    ]
    assert list(report(line(project, "6.1"), objects)) == [
        "kernel 6.1  early: 1 of 3 objects fail, 1 of other configurations skipped",
        "kernel 6.1  late: 2 of 2 objects fail",
        "kernel 6.1  last: 1 objects compile, 1 of other configurations skipped",
        "  b.c: warning",
        "    | b.c:3:1: warning: unused 'x'",
        "  c.c: this configuration does not compile it, with or without the patches",
        "    add what it needs to recipes/linux/patches.config or patches-6.1.config",
    ]
