"""The README's promise on the quick variant: built, explained, booted, judged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command import invoke

from boardwright.image import bmap

pytestmark = pytest.mark.e2e


def test_checksums_hold_and_the_block_map_fits(quick: Path) -> None:
    rows = [line.split("  ") for line in (quick / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in rows} >= {"rock5b.img", "rock5b.img.zst", "rock5b.bmap"}
    for digest, name in rows:
        with (quick / name).open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == digest, name
    bmap.verify_file(bmap.read(quick / "rock5b.bmap"), quick / "rock5b.img")


def test_the_image_is_sparse(quick: Path) -> None:
    info = (quick / "rock5b.img").stat()
    assert info.st_size == 2 * 2**30
    assert info.st_blocks * 512 < info.st_size / 2


def test_the_manifest_names_inputs_keys_and_what_is_left_out(quick: Path) -> None:
    manifest = json.loads((quick / "manifest.json").read_text())
    assert all(len(row["sha256"]) == 64 for rows in manifest["inputs"].values() for row in rows)
    assert set(manifest["steps"]) >= {"image", "rootfs", "rootfs-base", "linux-debian-6.12", "tools-image"}
    assert "nothing was compiled" in manifest["left_out"]["patches"]
    assert "loader" in manifest["left_out"]


def test_a_second_build_has_nothing_to_do(quick: Path) -> None:
    before = (quick / "rock5b.img").stat().st_mtime_ns
    done = invoke("build", "--board", "rock5b", "--variant", "quick")
    assert done.returncode == 0
    assert "nothing to do" in done.stderr
    assert (quick / "rock5b.img").stat().st_mtime_ns == before


def test_a_damaged_artifact_is_published_again(quick: Path) -> None:
    digest = (quick / "SHA256SUMS").read_text()
    with (quick / "rock5b.img").open("r+b") as file:
        file.seek(300 * 2**20)
        file.write(b"\xff")
    done = invoke("build", "--board", "rock5b", "--variant", "quick")
    assert done.returncode == 0, done.stderr
    assert (quick / "SHA256SUMS").read_text() == digest
    bmap.verify_file(bmap.read(quick / "rock5b.bmap"), quick / "rock5b.img")


def test_bringup_passes_on_the_image_as_built(quick: Path) -> None:
    done = invoke("bringup", "--board", "rock5b", "--variant", "quick")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((quick / "bringup/bringup.json").read_text())
    outcomes = {check["check"]: check["outcome"] for check in results["checks"]}
    assert set(outcomes.values()) <= {"pass", "skip"}
    modelled = [check["check"] for check in results["checks"] if check["evidence"] != "emulated"]
    assert len(modelled) == 2
    assert all("model" in name for name in modelled)
