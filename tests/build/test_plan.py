"""Keys cover everything declared that can change an output, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from boardwright.build import plan as plans
from boardwright.build.step import (
    AnyStep,
    Download,
    LocalFile,
    Output,
    Package,
    Rendered,
    RootStep,
    Step,
    Text,
)
from boardwright.errors import InputError
from boardwright.verbs.plan import differences

PACKAGE = Package("bash", "5.2", "amd64", "pool/b.deb", 10, "a" * 64)
TOOLS = RootStep("tools", "tools", "amd64", (PACKAGE,), "root", 5, ("--x",))
INPUTS = {
    "earlier": Output("first", "made"),
    "file": LocalFile("/project/file", "1" * 64),
    "download": Download("pool/x", 7, "2" * 64),
    "text": Text("text"),
    "rendered": Rendered("/project/tree", "3" * 64, '{"a":1}'),
}
REST = {name: value for name, value in INPUTS.items() if name != "text"}
FIRST = Step("first", "first", "echo", "tools", ("made",))
STEP = Step("step", "title", "true", "tools", ("a", "b"), INPUTS, {"v": "1"}, 7, ("kconfig.py",))


def key(step: Step = STEP, others: Iterable[AnyStep] = (TOOLS, FIRST)) -> str:
    return plans.make([*others, step], [step.name])[step.name].key


def with_input(**inputs: Any) -> Step:
    return replace(STEP, inputs={**INPUTS, **inputs})


CHANGED: dict[str, str] = {
    "script": key(replace(STEP, script="false")),
    "outputs": key(replace(STEP, outputs=("a",))),
    "order of outputs": key(replace(STEP, outputs=("b", "a"))),
    "variable": key(replace(STEP, variables={"v": "2"})),
    "name of a variable": key(replace(STEP, variables={"w": "1"})),
    "epoch": key(replace(STEP, epoch=8)),
    "helper added": key(replace(STEP, sealed=("kconfig.py", "bmap.py"))),
    "input path of an output": key(with_input(earlier=Output("first", "other"))),
    "bytes of a file": key(with_input(file=LocalFile("/project/file", "4" * 64))),
    "bytes of a download": key(with_input(download=Download("pool/x", 7, "5" * 64))),
    "text": key(with_input(text=Text("other"))),
    "bytes of a template": key(with_input(rendered=Rendered("/project/tree", "6" * 64, '{"a":1}'))),
    "words of a template": key(with_input(rendered=Rendered("/project/tree", "3" * 64, '{"a":2}'))),
    "another input": key(with_input(more=Text(""))),
    "name of an input": key(replace(STEP, inputs={**REST, "t": Text("text")})),
    "what kind of input": key(with_input(file=Download("/project/file", 7, "1" * 64))),
    "script of an earlier step": key(others=(TOOLS, replace(FIRST, script="ls"))),
    "package": key(others=(replace(TOOLS, packages=(replace(PACKAGE, sha256="b" * 64),)), FIRST)),
    "version": key(others=(replace(TOOLS, packages=(replace(PACKAGE, version="5.3"),)), FIRST)),
    "architecture": key(others=(replace(TOOLS, architecture="arm64"), FIRST)),
    "root options": key(others=(replace(TOOLS, options=()), FIRST)),
    "root epoch": key(others=(replace(TOOLS, epoch=6), FIRST)),
    "form of the root": key(others=(replace(TOOLS, output="root.tar"), FIRST)),
}


@pytest.mark.parametrize("what", CHANGED)
def test_everything_declared_changes_the_key(what: str) -> None:
    assert CHANGED[what] != key()


def test_and_every_change_in_its_own_way() -> None:
    assert len({key(), *CHANGED.values()}) == len(CHANGED) + 1


SAME = {
    "name": replace(STEP, name="other"),
    "title": replace(STEP, title="other"),
    "path of a file": with_input(file=LocalFile("/elsewhere/file", "1" * 64)),
    "path of a template": with_input(rendered=Rendered("/elsewhere/tree", "3" * 64, '{"a":1}')),
    "where a download lies": with_input(download=Download("https://example.org/x", 7, "2" * 64)),
    "kept tree": replace(STEP, kept_tree="tree"),
    "compiler cache": replace(STEP, ccache=True),
    "order of inputs": replace(STEP, inputs=dict(reversed(INPUTS.items()))),
}


@pytest.mark.parametrize("what", SAME)
def test_what_cannot_change_an_output_leaves_the_key(what: str) -> None:
    assert key(SAME[what]) == key()


def test_so_does_where_a_package_lies_and_the_order_of_packages() -> None:
    second = replace(PACKAGE, name="coreutils")
    one = replace(TOOLS, packages=(PACKAGE, second))
    other = replace(TOOLS, packages=(second, replace(PACKAGE, path="pool/elsewhere.deb")), title="other")
    assert key(others=(one, FIRST)) == key(others=(other, FIRST))


def test_a_changed_helper_program_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    (tmp_path / "kconfig.py").write_text("print()\n")
    monkeypatch.setattr(plans, "SEALED", tmp_path)
    plans._sealed_digest.cache_clear()
    try:
        assert key() != before
    finally:
        plans._sealed_digest.cache_clear()


def test_the_host_time_umask_and_directory_leave_the_key(tmp_path: Path) -> None:
    program = "import test_plan; print(test_plan.key())"
    found = f"{Path(__file__).parent}:{Path(__file__).parents[2]}"
    odd = {
        **os.environ,
        "PYTHONPATH": found,
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "HOME": "/nowhere",
        "PYTHONHASHSEED": "7",
        "BOARDWRIGHT_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=odd, umask=0o077, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == key()


def test_steps_come_after_what_they_need_and_unneeded_ones_are_left_out() -> None:
    unneeded = replace(FIRST, name="unneeded")
    made = plans.make([unneeded, STEP, FIRST, TOOLS], ["step"])
    assert list(made.steps) == ["tools", "first", "step"]
    assert made["step"].needs == ("tools", "first")


def test_a_cycle_is_named_step_by_step() -> None:
    first = replace(FIRST, inputs={"x": Output("step")})
    with pytest.raises(InputError, match="steps need each other: step -> first -> step"):
        plans.make([TOOLS, first, STEP], ["step"])


def test_a_step_that_needs_itself_is_a_cycle() -> None:
    with pytest.raises(InputError, match="first -> first"):
        plans.make([TOOLS, replace(FIRST, inputs={"x": Output("first")})], ["first"])


def test_a_need_that_is_not_there_is_named_with_its_step() -> None:
    with pytest.raises(InputError, match="'step' needs 'first'") as caught:
        plans.make([TOOLS, STEP, replace(FIRST, name="firts")], ["step"])
    assert caught.value.hint == "did you mean 'firts'?"


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="no step 'stpe'") as caught:
        plans.make([TOOLS, FIRST, STEP], ["stpe"])
    assert caught.value.hint == "did you mean 'step'?"
    with pytest.raises(InputError, match="no step 'frist'"):
        plans.make([TOOLS, FIRST], ["first"])["frist"]


def test_explain_names_the_inputs_that_changed_and_no_others() -> None:
    before = plans.make([TOOLS, FIRST, STEP], ["step"])["step"].record
    changed = replace(with_input(text=Text("new"), more=Text("x")), epoch=9)
    changed = replace(changed, inputs={k: v for k, v in changed.inputs.items() if k != "file"})
    after = plans.make([TOOLS, FIRST, changed], ["step"])["step"].record
    lines = list(differences(json.loads(json.dumps(before)), after))
    assert [line.split(":")[0] for line in lines] == ["epoch", "inputs.file", "inputs.more", "inputs.text"]
    assert lines[0] == "epoch: changed from 7 to 9"
    assert lines[1] == "inputs.file: gone (was local 111111111111)"
    assert "new (text " in lines[2]
    assert list(differences(before, json.loads(json.dumps(before)))) == []


def test_explain_names_the_package_that_changed() -> None:
    newer = replace(TOOLS, packages=(replace(PACKAGE, version="5.3"),))
    records = [plans.make([tools], ["tools"])["tools"].record for tools in (TOOLS, newer)]
    assert [line.split(" (")[0] for line in differences(*records)] == [
        "packages.bash 5.2 amd64: gone",
        "packages.bash 5.3 amd64: new",
    ]
