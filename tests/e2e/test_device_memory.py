"""Device memory in QEMU on the quick image: libc's copies die, the helper and the hunt library do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import ROOT

from boardwright.bringup.bench import Bench, Options
from boardwright.bringup.run import bringup
from boardwright.errors import ExitStatus
from boardwright.hunt import lab
from boardwright.hunt.report import Report, parse
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.schema.board import Board

pytestmark = pytest.mark.e2e


class Lab:
    """The quick image, QEMU and the lab's tarball."""

    def __init__(self, quick: Path) -> None:
        from boardwright.build import executor
        from boardwright.verbs.build import builder
        from boardwright.verbs.common import request

        asked = request(ROOT, "rock5b", "quick")
        entries = executor.build(asked.plan(QEMU_ENVIRONMENT, "lab"), builder(asked))
        self.image, self.board = quick / "rock5b.img", asked.context.board
        self.manifest: dict[str, Any] = json.loads((quick / "manifest.json").read_text())
        self.qemu_root = entries[QEMU_ENVIRONMENT].out / "root"
        self.disks = {"lab": entries["lab"].out / "lab.tar"}


@pytest.fixture(scope="session")
def here(quick: Path) -> Lab:
    return Lab(quick)


def only_device_memory(directory: Path) -> Path:
    """A directory of checks with this one; under another name than this module, which pytest has loaded."""
    tests = directory / "tests"
    tests.mkdir()
    (tests / "test_the_lab.py").symlink_to(ROOT / "bringup-tests/test_device_memory.py")
    return tests


def test_libc_dies_where_the_helper_does_not(here: Lab, tmp_path: Path) -> None:
    options = Options(qemu=lab.options(here.disks), tests=only_device_memory(tmp_path))
    status = bringup(here.image, here.board, here.manifest, here.qemu_root, tmp_path / "out", options)
    checks = json.loads((tmp_path / "out/bringup.json").read_text())["checks"]
    assert status is ExitStatus.OK, [check for check in checks if check["outcome"] in ("fail", "error")]
    outcomes = {check["check"]: check["outcome"] for check in checks}
    helper = "pass" if (ROOT / "patches/mesa/aligned-access").exists() else "skip"
    assert outcomes == {
        "copies on RAM and on Normal-NC: no fault, right bytes": "pass",
        "libc's copies on Device memory: die, as they must": "pass",
        "Mesa's copies on Device memory: no fault, right bytes": helper,
    }
    died = {m["name"]: m["value"] for check in checks for m in check["measurements"]}
    # Of 314 sizes, 16 target and 8 source offsets: every size from 4 on has offsets that die.
    assert died["memcpy to device faults"] == 39336
    assert died["memset set device faults"] == 4862


def hunted(bench: Bench, variables: str) -> tuple[str, int, Report]:
    """align-lab's lines with the hunt library under it, on few sizes; its status, and the report."""
    console = bench.console
    bar = lab.bar(console)
    assert bar is not None
    assert lab.unpack(console, "lab", "/run/lab")
    console.run("rm -f /run/report")
    preload = "LD_PRELOAD=/run/lab/libalign-hunt.so ALIGN_HUNT_REPORT=/run/report"
    done = console.run(f"env {preload} {variables} /run/lab/align-lab {bar} 40", 900)
    return done.output, done.status, parse(console.run("cat /run/report", 120).output)


def test_the_hunt_library_makes_every_fault_good_and_lists_it(here: Lab, tmp_path: Path) -> None:
    options = Options(qemu=lab.options(here.disks))
    with Bench(here.image, here.board, here.manifest, here.qemu_root, tmp_path / "c.cast", options) as bench:
        alone = bench.console.run("true")  # the boot's failure is told as such
        assert alone.status == 0
        output, status, report = hunted(bench, "")
        found = [json.loads(line) for line in output.splitlines()]
        assert status == 0
        assert {(entry["faults"], entry["wrong"]) for entry in found} == {(0, 0)}
        assert {site.code.symbol for site in report.sites} == {"memcpy", "memmove", "memset"}
        assert {site.caller.file for site in report.sites if site.caller} == {"align-lab"}
        assert all(site.emulated and any(offset % site.element for offset in site.modulo16)
                   for site in report.sites)  # fmt: skip
        assert report.mappings > 0
        assert report.lost == 0

        _, status, report = hunted(bench, "ALIGN_HUNT=stop")
        assert len(report.sites) == 1
        assert (report.sites[0].count, report.sites[0].emulated) == (1, False)


def test_without_the_second_processor_the_lab_says_that_nothing_is_enforced(
    here: Lab, tmp_path: Path
) -> None:
    """QEMU 10.0 checks Device memory only where it must be atomic between processors."""
    import msgspec

    emulation = msgspec.structs.replace(here.board.emulation, cpus=1)
    board: Board = msgspec.structs.replace(here.board, emulation=emulation)
    options = Options(qemu=lab.options(here.disks), tests=only_device_memory(tmp_path))
    status = bringup(here.image, board, here.manifest, here.qemu_root, tmp_path / "out", options)
    checks = json.loads((tmp_path / "out/bringup.json").read_text())["checks"]
    failed = {check["check"]: check["detail"] for check in checks if check["outcome"] == "fail"}
    assert status is ExitStatus.PRODUCT
    assert list(failed) == ["libc's copies on Device memory: die, as they must"]
    assert all("Device memory is not enforced here" in detail for detail in failed.values())
