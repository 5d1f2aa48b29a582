"""A project loads what is asked for, once; and costs a build with nothing to do next to nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import project

from boardwright.errors import InputError, Place
from boardwright.schema.lock import has_lock, request_digest
from boardwright.schema.project import load_project
from boardwright.schema.recipe import EnvironmentRecipe, KernelRecipe, LoaderRecipe
from boardwright.schema.units import Size

ROOT = Path(__file__).parents[2]


def test_a_board_is_what_its_file_says(tmp_path: Path) -> None:
    board = load_project(project(tmp_path)).board("toy")
    assert board.memory.cma is not None
    assert (board.memory.cma.size, board.memory.cma.below) == (Size(64 * 2**20), Size(2**32))
    assert [partition.size for partition in board.partitions] == [Size(64 * 2**20), "rest"]
    assert board.disk.align == Size(2**20)
    assert board.kernel.config == ["toy.config"]


def test_a_variant_changes_the_kernel_and_drops_what_was_meant_for_the_other(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    quick = loaded.board("toy", "quick")
    assert (quick.kernel.recipe, quick.kernel.config, quick.kernel.patches) == ("linux-debian", [], [])
    assert quick.kernel.device_tree == "toy/toy.dtb"
    assert quick.boot.loader is None
    assert loaded.board("toy").boot.loader == "u-boot"


def test_an_unknown_variant_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_project(project(tmp_path)).board("toy", "quik")
    assert caught.value.place == Place("boards/toy/board.yaml")
    assert caught.value.hint == "did you mean 'quick'?"


@pytest.mark.parametrize("name", ["linus", "../recipes/linux", "", "linux.yaml"])
def test_an_unknown_recipe_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="there is no recipe"):
        load_project(project(tmp_path)).recipe(name)


def test_each_kind_of_recipe_becomes_its_own_type(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    assert isinstance(loaded.recipe("linux"), KernelRecipe)
    assert isinstance(loaded.recipe("tools"), EnvironmentRecipe)
    loader = loaded.recipe("u-boot")
    assert isinstance(loader, LoaderRecipe)
    assert (loader.source.as_, loader.firmware.debian) == ("source", "arm-trusted-firmware")


def test_what_is_loaded_is_kept_until_the_project_is_loaded_again(tmp_path: Path) -> None:
    root = project(tmp_path)
    loaded = load_project(root)
    before = loaded.recipe("tools")
    path = root / "recipes/tools.yaml"
    path.write_text(path.read_text().replace("make", "ninja-build"))
    assert loaded.recipe("tools") is before
    assert load_project(root).recipe("tools") != before


def test_without_a_lock_or_local_file_there_is_none_and_defaults(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    assert loaded.lock("image") is None
    assert loaded.local().ssh_authorized_keys == []


def test_a_request_changes_with_what_is_asked_for_and_with_nothing_else(tmp_path: Path) -> None:
    root = project(tmp_path)
    path = root / "recipes/tools.yaml"
    text = path.read_text()

    def digest(changed: str) -> str:
        path.write_text(changed)
        return request_digest(load_project(root).recipe("tools"))

    base = digest(text)
    assert digest(text + "summary: another\n") == base
    assert digest(text.replace("trixie", "trixie-backports")) != base
    assert digest(text.replace("make", "ninja-build")) != base


def test_only_recipes_that_take_something_from_a_mirror_have_a_lock(tmp_path: Path) -> None:
    loaded = load_project(project(tmp_path))
    without = [name for name in loaded.recipes() if not has_lock(loaded.recipe(name))]
    assert without == ["image", "overlays"]


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "recipes/tools.yaml").unlink()
    (root / "recipes/tools.yaml").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        load_project(root).recipe("tools")


LOADING = """
import sys
from pathlib import Path
from boardwright.schema.project import load_project
project = load_project(Path({root!r}))
project.board("toy", "quick"), project.local()
for name in project.recipes():
    project.recipe(name), project.lock(name)
print(*sorted(sys.modules))
"""


def test_loading_imports_nothing_that_only_errors_or_builds_need(tmp_path: Path) -> None:
    code = LOADING.format(root=str(project(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"jinja2", "rich", "pexpect", "difflib", "subprocess", "asyncio", "invoke"}
    assert not heavy & set(done.stdout.split())


def test_loading_a_project_takes_less_than_60_ms(tmp_path: Path) -> None:
    """The best of five, since other processes share the machine; imports are not counted."""
    root = project(tmp_path)

    def once() -> float:
        start = time.perf_counter()
        loaded = load_project(root)
        loaded.board("toy", "quick")
        for name in loaded.recipes():
            loaded.recipe(name)
            loaded.lock(name)
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.060
