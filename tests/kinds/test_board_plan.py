"""The plans of the project's own boards: what feeds what, and what changes which keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from boardwright.build.plan import Plan, make
from boardwright.build.step import RootStep, Step, Text
from boardwright.errors import InputError
from boardwright.kinds.board import image_targets, steps
from boardwright.kinds.context import Context
from boardwright.kinds.image import command_line
from boardwright.schema.board import Local
from boardwright.schema.project import load_project

ROOT = Path(__file__).parents[2]
FILES = ("native", "tools", "boards", "recipes", "overlays", "patches")


def plan_of(root: Path, variant: str | None = None, local: Local | None = None) -> Plan:
    project = load_project(root)
    context = Context(project, project.board("rock5b", variant), local or project.local(), variant)
    return make(steps(context), image_targets(context))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    return tmp_path


def changed(before: Plan, after: Plan) -> set[str]:
    return {name for name in after.steps if before.steps[name].key != after.steps[name].key}


def test_the_same_files_elsewhere_give_the_same_keys(project: Path) -> None:
    assert {n: p.key for n, p in plan_of(project).steps.items()} == {
        n: p.key for n, p in plan_of(ROOT, local=Local()).steps.items()
    }


def test_an_image_needs_kernel_root_overlays_and_loader(project: Path) -> None:
    assert set(plan_of(project)["image"].needs) == {
        "tools-image", "linux-7.3", "rootfs-radeon", "overlays", "u-boot-rock5b",
    }  # fmt: skip


def test_our_packages_are_installed_with_the_root(project: Path) -> None:
    plan = plan_of(project)
    assert plan["rootfs-radeon-base"].needs == ("mesa-25.0", "npu-matmul", "llama-runner")
    base = plan["rootfs-radeon-base"].step
    assert isinstance(base, RootStep)
    assert [built.name for built in base.built] == ["boardwright-mesa", "npu-matmul", "llama-runner"]
    assert {"libgbm1", "libllvm19"}.isdisjoint(package.name for package in base.packages)


def test_an_option_of_mesa_changes_the_packages_of_the_root(project: Path) -> None:
    before, recipe = plan_of(project), project / "recipes/mesa-25.0.yaml"
    recipe.write_text(recipe.read_text().replace("zstd: enabled", "zstd: disabled"))
    made = {"mesa-25.0", "rootfs-radeon-base", "rootfs-radeon", "image", "image-zst"}
    assert changed(before, plan_of(project)) == made


def test_the_quick_variant_compiles_nothing(project: Path) -> None:
    plan = plan_of(project, "quick")
    assert "tools-cross" not in plan.steps
    assert "linux-debian-6.12" in plan.steps
    assert "u-boot-rock5b" not in plan.steps
    assert "mesa-25.0" not in plan.steps


def test_a_fragment_line_changes_the_kernel_and_what_depends_on_it_only(project: Path) -> None:
    before = plan_of(project)
    with (project / "recipes/linux/base.config").open("a") as file:
        file.write("CONFIG_LATER=y\n")
    assert changed(before, plan_of(project)) == {
        "linux-7.3",
        "rootfs-radeon",
        "overlays",
        "image",
        "image-zst",
    }


def test_an_overlay_file_changes_the_root_and_not_its_packages(project: Path) -> None:
    before = plan_of(project)
    (project / "overlays/rootfs/common/etc/motd.j2").write_text("hello\n")
    assert changed(before, plan_of(project)) == {"rootfs-radeon", "image", "image-zst"}


def test_cma_of_the_board_file_reaches_the_command_line(project: Path) -> None:
    board = project / "boards/rock5b/board.yaml"
    board.write_text(board.read_text().replace("cma: {size: 512MiB", "cma: {size: 256MiB"))
    loaded = load_project(project)
    context = Context(loaded, loaded.board("rock5b"), Local())
    assert "cma=256M@0-4G" in command_line(context).split()


def test_the_command_line_names_no_console(project: Path) -> None:
    loaded = load_project(project)
    assert "console=" not in command_line(Context(loaded, loaded.board("rock5b"), Local()))


def test_without_the_vendors_blob_no_hole_is_filled(project: Path) -> None:
    step = plan_of(project)["image"].step
    assert isinstance(step, Step)
    text = step.inputs["layout.json"]
    assert isinstance(text, Text)
    assert [hole["source"] for hole in json.loads(text.content)["holes"]] == [None, None]


def test_every_package_of_a_root_is_named_by_sha256(project: Path) -> None:
    for planned in plan_of(project).steps.values():
        if isinstance(planned.step, RootStep):
            assert all(len(package.sha256) == 64 for package in planned.step.packages)


def test_a_recipe_without_a_lock_is_an_error_with_the_way_out(project: Path) -> None:
    (project / "recipes/rootfs-radeon.lock.json").unlink()
    with pytest.raises(InputError) as caught:
        plan_of(project)
    assert caught.value.hint == "run `invoke lock --recipe rootfs-radeon`"


def test_an_unknown_step_is_answered_with_the_nearest(project: Path) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(project)["rootf"]
    assert "rootfs" in (caught.value.hint or "")
