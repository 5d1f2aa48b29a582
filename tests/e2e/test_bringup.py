"""The bring-up fails on an image that was tampered with, and says what is wrong with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import ROOT

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.build.publish import copy
from boardwright.build.sandbox import Seal, argv
from boardwright.errors import ExitStatus
from boardwright.schema.board import Board
from boardwright.targets import extlinux, gpt, qemu

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Built:
    """The image as built, with what is needed to boot copies of it."""

    image: Path
    manifest: dict[str, Any]
    board: Board
    qemu_root: Path


@pytest.fixture(scope="session")
def built(quick: Path) -> Built:
    from boardwright.build import executor
    from boardwright.kinds.board import QEMU_ENVIRONMENT
    from boardwright.verbs.build import builder
    from boardwright.verbs.common import request

    asked = request(ROOT, "rock5b", "quick")
    entries = executor.build(asked.plan(QEMU_ENVIRONMENT), builder(asked))
    return Built(
        quick / "rock5b.img",
        json.loads((quick / "manifest.json").read_text()),
        asked.context.board,
        entries[QEMU_ENVIRONMENT].out / "root",
    )


def tampered(built: Built, directory: Path, change: Callable[[str], str]) -> Path:
    """A copy of the image in whose boot entry ``change`` was made."""
    image = directory / built.image.name
    copy(built.image, image)
    boot = next(p for p in gpt.read(image) if p.name == "boot")
    drive = f"/out/{image.name}@@{boot.offset}"

    def mtool(*words: str) -> None:
        seal = Seal(root=built.qemu_root, writable={"/out": directory}, variables={"MTOOLS_SKIP_CHECK": "1"})
        subprocess.run(argv(seal, list(words)), check=True, capture_output=True)

    mtool("mcopy", "-n", "-i", drive, f"::{extlinux.PATH}", "/out/extlinux.conf")
    entry = directory / "extlinux.conf"
    before = entry.read_text()
    after = change(before)
    assert after != before
    entry.write_text(after)
    mtool("mcopy", "-o", "-i", drive, "/out/extlinux.conf", f"::{extlinux.PATH}")
    return image


def verdict(
    built: Built, image: Path, out: Path, manifest: dict[str, Any] | None = None, *, u_boot: bool = False
) -> tuple[int, dict[str, str]]:
    """Exit status, and of each check that failed, why."""
    options = Options(qemu=qemu.Options(u_boot=u_boot))
    status = bringup(image, built.board, manifest or built.manifest, built.qemu_root, out, options)
    checks = json.loads((out / "bringup.json").read_text())["checks"]
    assert not [check for check in checks if check["outcome"] == "error"]
    return status, {check["check"]: check["detail"] for check in checks if check["outcome"] == "fail"}


def test_another_contiguous_area_fails_with_both_sizes(built: Built, tmp_path: Path) -> None:
    image = tampered(built, tmp_path, lambda text: text.replace("cma=512M", "cma=256M"))
    status, failed = verdict(built, image, tmp_path / "out")
    assert status is ExitStatus.PRODUCT
    assert failed.keys() == {
        "image is the one the manifest describes",
        "kernel command line as built",
        "CMA size and place as the board file says",
    }
    assert failed["CMA size and place as the board file says"] == "CMA: expected 512MiB, found 256MiB"


def test_a_root_that_does_not_exist_fails_the_boot_by_name(built: Built, tmp_path: Path) -> None:
    partuuid = built.manifest["boot"]["root-partuuid"]
    image = tampered(built, tmp_path, lambda text: text.replace(partuuid, partuuid[:-4] + "0000"))
    status, failed = verdict(built, image, tmp_path / "out")
    assert status is ExitStatus.PRODUCT
    assert failed.keys() == {"boots to a shell", "image is the one the manifest describes"}
    assert "root not mounted" in failed["boots to a shell"]
    assert partuuid[:-4] + "0000" in failed["boots to a shell"]


def test_another_kernel_than_the_manifests_fails_with_both_releases(built: Built, tmp_path: Path) -> None:
    manifest = {**built.manifest, "kernel": {**built.manifest["kernel"], "release": "0.0.0-other"}}
    status, failed = verdict(built, built.image, tmp_path, manifest)
    assert status is ExitStatus.PRODUCT
    assert failed.keys() == {"kernel release as built"}
    assert "0.0.0-other" in failed["kernel release as built"]
    assert built.manifest["kernel"]["release"] in failed["kernel release as built"]


def test_u_boot_boots_the_same_image_from_its_own_boot_entry(built: Built, tmp_path: Path) -> None:
    status, failed = verdict(built, built.image, tmp_path, u_boot=True)
    assert (status, failed) == (ExitStatus.OK, {})
    milestones = json.loads((tmp_path / "bringup.json").read_text())["checks"][0]["measurements"]
    assert "u-boot seconds" in {m["name"] for m in milestones}
