"""Which of our four outcomes an exception in a check is; and checks of a user's own directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_replayed_bringup import BOARD, DATA, MANIFEST

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.errors import ExitStatus, HostError

CHECKS = """
import pytest
from boardwright.console.errors import ConsoleLost
from boardwright.errors import ProductError

def test_boot(boot): "boots"
def test_product(console): "product"; raise ProductError("too slow", hint="buy a faster one")
def test_assert(console): "assertion"; assert console.run("uname -r").line == "x", "the release is not x"
def test_lab(console): "lab"; raise ConsoleLost("the cable was pulled")
def test_broken(console): "broken check"; {}["missing"]
def test_unknown(console): "asks what was never recorded"; assert console.run("lspci").status == 127
def test_skipped(console): "skipped"; pytest.skip("no card in the slot")
"""


def outcomes(tmp_path: Path, text: str) -> tuple[int, dict[str, tuple[str, str]]]:
    tests = tmp_path / "checks"
    tests.mkdir()
    (tests / f"test_of_{tmp_path.name}.py").write_text(text)  # pytest keeps modules by name
    options = Options(target="replay", recording=DATA / "good.cast", tests=tests)
    status = bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)
    found = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    return status, {check["check"]: (check["outcome"], check["detail"]) for check in found}


def test_each_kind_of_end_has_its_outcome(tmp_path: Path) -> None:
    status, found = outcomes(tmp_path, CHECKS)
    assert status is ExitStatus.PRODUCT
    assert found == {
        "boots": ("pass", ""),
        "product": ("fail", "too slow"),
        "assertion": ("fail", "the release is not x"),
        "lab": ("error", "the cable was pulled"),
        "broken check": ("error", "KeyError: 'missing'"),
        "asks what was never recorded": ("pass", ""),
        "skipped": ("skip", "no card in the slot"),
    }


def test_only_lab_errors_is_a_lab_error(tmp_path: Path) -> None:
    status, _ = outcomes(
        tmp_path, "from boardwright.errors import HostError\ndef test_x(): raise HostError('x')\n"
    )
    assert status is ExitStatus.HOST


@pytest.mark.parametrize("text", ["", "import there_is_no_such_module\n"])
def test_checks_that_do_not_load_are_never_a_pass(tmp_path: Path, text: str) -> None:
    with pytest.raises(HostError, match=r"no check could be run|cannot be loaded"):
        outcomes(tmp_path, text)
