"""A card that ``invoke flash`` wrote boots, as an SD card of QEMU, to a shell on ``mmcblk0``.

The card held 0xAA everywhere before. QEMU 10 lets nobody add an eMMC (boardwright/targets/emmc.py says why),
and Linux has one driver for both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, invoke

from boardwright.bringup.bench import Bench, Options
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.targets import qemu

pytestmark = pytest.mark.e2e
MIB = 2**20


def machine() -> tuple[Any, Path]:
    """The board, and the environment with QEMU."""
    from boardwright.build import executor
    from boardwright.verbs.build import builder
    from boardwright.verbs.common import request

    asked = request(ROOT, "rock5b", "quick")
    entries = executor.build(asked.plan(QEMU_ENVIRONMENT), builder(asked))
    return asked.context.board, entries[QEMU_ENVIRONMENT].out / "root"


@pytest.mark.parametrize("name", ["rock5b.img", "rock5b.img.zst"])
def test_the_flashed_card_boots(quick: Path, tmp_path: Path, name: str) -> None:
    card, size = tmp_path / "card.img", 4096 * MIB
    with card.open("wb") as file:
        file.write(b"\xaa" * (64 * MIB))
        file.truncate(size)
        file.seek(size - MIB)
        file.write(b"\xaa" * MIB)
    done = invoke("flash", "--image", str(quick / name), "--to", str(card), "--yes", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["outcome"], report["rewritten"]) == (0, "written", 0), done.stderr
    board, root = machine()
    manifest = json.loads((quick / "manifest.json").read_text())
    options = Options(qemu=qemu.Options(card=True, grow_by=0))
    with Bench(card, board, manifest, root, tmp_path / "c.cast", options) as bench:
        mounted = bench.console.run("findmnt -no SOURCE /").line
        assert mounted.startswith("/dev/mmcblk0p"), mounted
        assert bench.console.run("cat /sys/block/mmcblk0/device/type").line == "SD"
        assert bench.console.run("systemctl is-system-running --wait || true", 600).line in (
            "running",
            "degraded",
        )
