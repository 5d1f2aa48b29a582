"""The whole bring-up on recorded boots of a real image in QEMU: what passes, what fails, and in which words.

The recordings are of a kernel 7.3.4 with a small Debian root, as built and with its boot entry tampered
with: ``cma`` (256 MiB), ``root`` (a PARTUUID that no partition has), ``panic`` (the same without rootwait).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from boardwright.bringup.bench import Options
from boardwright.bringup.repeat import Plan
from boardwright.bringup.run import bringup
from boardwright.errors import ExitStatus
from boardwright.results.history import History
from boardwright.schema.project import Project
from boardwright.verbs.report import write
from boardwright.verbs.results import history_file

DATA = Path(__file__).parent / "data"
ROOT = "0b0b0b0b-0000-4000-8000-000000000002"
MANIFEST: dict[str, Any] = {
    "kernel": {"release": "7.3.4-boardwright"},
    "boot": {"root-partuuid": ROOT, "append": f"root=PARTUUID={ROOT} rootwait rw cma=512M@0-4G"},
    "artifacts": {"rock5b.img": "ab" * 32},
}
BOARD = Project(Path(__file__).parents[2]).board("rock5b")


def recorded_checks(out: Path) -> Path:
    """A directory with the checks whose commands the recordings answer."""
    checks = out / "checks"
    checks.mkdir(exist_ok=True)
    link = checks / "test_boot.py"
    if not link.exists():
        link.symlink_to(Path(__file__).parents[2] / "bringup-tests/test_boot.py")
    return checks


def run(
    recording: str, out: Path, manifest: dict[str, Any] | None = None
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status, and the checks by name."""
    options = Options(target="replay", recording=DATA / f"{recording}.cast", tests=recorded_checks(out))
    status = bringup(None, BOARD, manifest or MANIFEST, Path("/nowhere"), out, options)
    found = json.loads((out / "bringup.json").read_text())
    assert found["exit_status"] == status
    return status, {check["check"]: check for check in found["checks"]}


def test_the_image_as_built_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, checks = run("good", tmp_path)
    assert status is ExitStatus.OK
    outcomes = {name: check["outcome"] for name, check in checks.items()}
    assert outcomes.pop("image is the one the manifest describes") == "skip"
    assert set(outcomes.values()) == {"pass"}
    assert len(outcomes) == 12
    assert {check["evidence"] for check in checks.values()} == {"replayed"}
    table = capsys.readouterr().out
    assert "kernel release as built" in table
    assert "7.3.4-boardwright" in table
    assert "512MiB at 0x" in table


def test_another_kernel_than_the_manifests_is_a_failure(tmp_path: Path) -> None:
    status, checks = run("good", tmp_path, {**MANIFEST, "kernel": {"release": "7.3.5-boardwright"}})
    assert status is ExitStatus.PRODUCT
    assert failed(checks) == {"kernel release as built"}
    detail = checks["kernel release as built"]["detail"]
    assert detail == "kernel release: expected '7.3.5-boardwright', found '7.3.4-boardwright'"


def test_another_contiguous_area_than_the_boards_is_a_failure(tmp_path: Path) -> None:
    status, checks = run("cma", tmp_path)
    assert status is ExitStatus.PRODUCT
    assert failed(checks) == {"CMA size and place as the board file says", "kernel command line as built"}
    assert (
        checks["CMA size and place as the board file says"]["detail"] == "CMA: expected 512MiB, found 256MiB"
    )


@pytest.mark.parametrize(
    ("recording", "words"),
    [("root", "Waiting for root device"), ("panic", "root not mounted at")],
)
def test_a_root_that_does_not_exist_is_a_failure_of_the_boot(
    tmp_path: Path, recording: str, words: str
) -> None:
    status, checks = run(recording, tmp_path)
    assert status is ExitStatus.PRODUCT
    assert failed(checks) == {"boots to a shell"}
    assert words in checks["boots to a shell"]["detail"]
    assert checks["kernel release as built"]["outcome"] == "skip"


def test_another_root_than_the_manifests_is_a_failure(tmp_path: Path) -> None:
    other = {**MANIFEST, "boot": {"root-partuuid": "11111111-0000-4000-8000-000000000002"}}
    _, checks = run("good", tmp_path, other)
    assert failed(checks) == {"kernel command line as built", "root mounted from the image's root partition"}


def test_a_recording_that_lacks_everything_is_a_lab_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.cast"
    empty.write_text('{"version": 2, "width": 80, "height": 24}\n')
    options = Options(target="replay", recording=empty)
    assert bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options) is ExitStatus.HOST
    checks = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    assert checks[0]["outcome"] == "error"
    assert "not one byte" in checks[0]["detail"]


def test_junit_tells_failure_from_error_and_skip(tmp_path: Path) -> None:
    run("cma", tmp_path)
    suite = ElementTree.parse(tmp_path / "bringup.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("2", "0", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    cma = cases["CMA size and place as the board file says"]
    properties = {p.get("name"): p.get("value") for p in cma.iter("property")}
    assert properties["evidence"] == "replayed"
    assert properties["CmaTotal bytes"] == str(256 * 2**20)
    failure = cma.find("failure")
    assert failure is not None
    assert failure.get("message") == "CMA: expected 512MiB, found 256MiB"


def test_the_record_is_kept_under_the_images_digest(tmp_path: Path) -> None:
    run("good", tmp_path)
    run("good", tmp_path)
    kept = list((tmp_path / "results" / ("ab" * 32)).glob("*.json"))
    assert len(kept) == 2
    assert json.loads(kept[0].read_text())["target"] == "replay"


def test_a_run_that_did_not_pass_keeps_its_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night of runs is repeated into the same files: what failed must be there in the morning."""
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(tmp_path / "cache"))
    for recording in ("good", "root", "good"):
        options = Options(
            target="replay", recording=DATA / f"{recording}.cast", tests=recorded_checks(tmp_path),
            history=history_file(),
        )  # fmt: skip
        bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options)
    assert [kept.record["exit_status"] for kept in History(history_file()).runs()] == [0, 1, 0]
    (cast,) = (tmp_path / "results" / ("ab" * 32)).glob("*.cast")
    assert "Waiting for root device" in cast.read_text()
    page = write(tmp_path, "last~1", "rock5b", str(tmp_path / "failed.html")).read_text()
    assert 'href="#L' in page
    assert "Waiting for root device" in page[page.index("Transcript") :]
    assert "Booting Linux" not in write(tmp_path, "last", "rock5b", str(tmp_path / "good.html")).read_text()


@pytest.mark.parametrize("before", ['def test_first() -> None:\n    """passes"""\n\n\n', ""])
def test_a_run_that_was_interrupted_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Ctrl-C also comes in the first check, during the boot."""
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(tmp_path / "cache"))
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / f"test_person_{len(before)}.py").write_text(
        f'{before}def test_then() -> None:\n    """interrupted"""\n    raise KeyboardInterrupt\n'
    )
    options = Options(target="replay", recording=DATA / "good.cast", tests=checks, history=history_file())
    status = bringup(None, BOARD, MANIFEST, Path("/nowhere"), tmp_path, options, Plan(times=5))
    assert status == ExitStatus.INTERRUPTED
    (kept,) = History(history_file()).runs()
    assert kept.record["exit_status"] == ExitStatus.INTERRUPTED
    assert '<span class="badge interrupted">' in (tmp_path / "report.html").read_text()


def failed(checks: dict[str, dict[str, Any]]) -> set[str]:
    assert not [name for name, check in checks.items() if check["outcome"] == "error"]
    return {name for name, check in checks.items() if check["outcome"] == "fail"}
