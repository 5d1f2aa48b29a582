"""Which of our four outcomes an exception in a check is; and checks of a user's own directory."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from test_replayed_bringup import BOARD, DATA, MANIFEST

from boardwright.bringup.bench import Options
from boardwright.bringup.expectation import expectation
from boardwright.bringup.repeat import Plan
from boardwright.bringup.run import bringup
from boardwright.errors import ExitStatus, HostError, InputError
from boardwright.results.history import History

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


def test_a_check_is_not_another_module_of_its_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test_of_{tmp_path.name}"
    other = types.ModuleType(name)
    exec("def test_other(): 'of the other module'", other.__dict__)
    monkeypatch.setitem(sys.modules, name, other)
    _, found = outcomes(tmp_path, "def test_own(boot): 'own'\n")
    assert found == {"own": ("pass", "")}


def test_the_check_of_the_boot_comes_first_and_takes_its_failure(tmp_path: Path) -> None:
    text = "def test_a(console): 'a'\ndef test_b(console): 'b'\ndef test_boot(boot): 'boots'\n"
    tests = tmp_path / "checks"
    tests.mkdir()
    (tests / "test_order.py").write_text(text)
    options = Options(target="replay", recording=DATA / "panic.cast", tests=tests)
    bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)
    found = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    assert [(c["check"], c["outcome"]) for c in found] == [("boots", "fail"), ("a", "skip"), ("b", "skip")]


@pytest.mark.parametrize(
    ("only", "checks"),
    [
        ("product,skipped", ["product", "skipped"]),
        ("Broken Check", ["broken check"]),
        ("test_lab, test_product", ["product", "lab"]),
        ("test_some", 7),
        ("", 7),
    ],
)
def test_only_some_checks(tmp_path: Path, only: str, checks: list[str] | int) -> None:
    tests = tmp_path / "checks"
    tests.mkdir()
    (tests / "test_some.py").write_text(CHECKS)
    options = Options(target="replay", recording=DATA / "good.cast", tests=tests, only=only)
    bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)
    found = [c["check"] for c in json.loads((tmp_path / "bringup.json").read_text())["checks"]]
    assert (found if isinstance(checks, list) else len(found)) == checks


def test_words_that_no_check_has(tmp_path: Path) -> None:
    options = Options(target="replay", recording=DATA / "good.cast", only="nothing_is_called_so")
    with pytest.raises(InputError, match="no check in"):
        bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)


def test_a_recording_in_the_place_of_the_transcript_is_read_first(tmp_path: Path) -> None:
    (tmp_path / "console.cast").write_bytes((DATA / "good.cast").read_bytes())
    tests = tmp_path / "checks"
    tests.mkdir()
    (tests / "test_place.py").write_text("def test_boot(boot): 'boots'\n")
    options = Options(target="replay", recording=tmp_path / "console.cast", tests=tests)
    assert bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options) is ExitStatus.OK


def test_every_run_is_in_the_history_with_what_it_rests_on(tmp_path: Path) -> None:
    tests = tmp_path / "checks"
    tests.mkdir()
    (tests / "test_kept.py").write_text("def test_boot(boot): 'boots'\n")
    history = tmp_path / "history.sqlite3"
    options = Options(target="replay", recording=DATA / "good.cast", tests=tests, history=history)
    manifest = {**MANIFEST, "inputs": {"rootfs": [{"sha256": "ab"}]}}
    assert bringup(None, BOARD, manifest, Path("/x"), tmp_path, options, Plan(times=2)) is ExitStatus.OK
    runs = History(history).runs()
    assert [kept.number for kept in runs] == [2, 1]
    record = runs[0].record
    assert record["evidence"] == "replayed"
    assert len(record["lock"]["sha256"]) == 64
    assert record["boot"]["stages"][-1][0] == "systemd"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_only_lab_errors_is_a_lab_error(tmp_path: Path) -> None:
    status, _ = outcomes(
        tmp_path, "from boardwright.errors import HostError\ndef test_x(): raise HostError('x')\n"
    )
    assert status is ExitStatus.HOST


@pytest.mark.parametrize("text", ["", "import there_is_no_such_module\n"])
def test_checks_that_do_not_load_are_never_a_pass(tmp_path: Path, text: str) -> None:
    with pytest.raises(HostError, match=r"no check could be run|cannot be loaded"):
        outcomes(tmp_path, text)


def test_of_a_boot_that_fails_one_check_only_says_so(tmp_path: Path) -> None:
    """The project's own checks: all others have no shell to ask, and are skipped."""
    options = Options(target="replay", recording=DATA / "panic.cast")
    bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)
    found = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    assert [check["check"] for check in found if check["outcome"] in ("fail", "error")] == [
        "boots to a shell"
    ]


def test_bootargs_of_one_boot_are_expected_in_place_of_the_images() -> None:
    manifest = {"boot": {"append": "root=PARTUUID=1 rw cma=512M@0-4G"}}
    assert expectation(BOARD, manifest, None).append == "root=PARTUUID=1 rw cma=512M@0-4G"
    once = expectation(BOARD, manifest, None, "console=ttyS2 console=tty1 root=/dev/mmcblk0p2")
    assert (once.append, once.words) == (None, ("console=ttyS2", "console=tty1", "root=/dev/mmcblk0p2"))
