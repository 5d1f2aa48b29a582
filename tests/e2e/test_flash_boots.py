"""What ``invoke flash`` wrote boots: a card with a GPT, and a Maix-IV's eMMC without a table.

Both are an SD card of QEMU, ``mmcblk0``, that held 0xAA before. QEMU 10 lets nobody add an eMMC
(boardwright/targets/emmc.py says why), and Linux has one driver for both.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, invoke

from boardwright.bringup.bench import Bench, Options
from boardwright.build.sandbox import Seal, argv
from boardwright.errors import InputError
from boardwright.flash.boarddisk import BoardDisk, disks, the_disk
from boardwright.flash.journal import Journal
from boardwright.flash.line import Line
from boardwright.flash.run import flash
from boardwright.flash.source import find
from boardwright.image import names
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.targets import qemu

pytestmark = pytest.mark.e2e
MIB = 2**20


def machine(name: str = "rock5b", variant: str = "quick") -> tuple[Any, Path]:
    """The board, and the environment with QEMU."""
    from boardwright.build import executor
    from boardwright.verbs.build import builder
    from boardwright.verbs.common import request

    asked = request(ROOT, name, variant)
    entries = executor.build(asked.plan(QEMU_ENVIRONMENT), builder(asked))
    return asked.context.board, entries[QEMU_ENVIRONMENT].out / "root"


def test_the_flashed_card_boots(quick: Path, tmp_path: Path) -> None:
    card, size = tmp_path / "card.img", 4096 * MIB
    with card.open("wb") as file:
        file.write(b"\xaa" * (64 * MIB))
        file.truncate(size)
        file.seek(size - MIB)
        file.write(b"\xaa" * MIB)
    done = invoke("flash", "--image", str(quick / "rock5b.img.zst"), "--to", str(card), "--yes", "--json")
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


@pytest.mark.slow  # the kernel is compiled, where it is not in the store yet
def test_the_flashed_emmc_without_a_table_boots(tmp_path: Path) -> None:
    """By a map that bmaptool made of the bare disk; it leaves out holes, which must read as zeros."""
    if not shutil.which("bmaptool"):
        pytest.skip("Debian's package bmap-tools is not installed")
    done = invoke("build", "--board", "maix-iv")
    assert done.returncode == 0, done.stderr
    board, root = machine("maix-iv", "")
    (tmp_path / "x").mkdir()
    shutil.copy(ROOT / "out/maix-iv" / names.image_name(board), tmp_path / "built")
    seal = Seal(root=root, writable={"/work": tmp_path}, directory="/work")
    convert = ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", "built", "x/emmc.img"]
    subprocess.run(argv(seal, convert), check=True)
    (tmp_path / "built").unlink()
    image, card = tmp_path / "x/emmc.img", tmp_path / "x/card"
    subprocess.run(["bmaptool", "create", "-o", tmp_path / "x/emmc.bmap", image], check=True)
    with card.open("wb") as file:
        for at in range(0, 1024 * MIB, 8 * MIB):
            file.seek(at)
            file.write(b"\xaa" * (4 * MIB))
        file.truncate(image.stat().st_size)
    done = invoke("flash", "--image", str(image), "--to", str(card), "--yes", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["outcome"], report["rewritten"]) == (0, "written", 0), done.stderr
    image.unlink()
    disk = tmp_path / f"x/card{names.EMMC}"
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "card", f"x/{disk.name}"]
    subprocess.run(argv(seal, create), check=True)
    manifest = json.loads((ROOT / "out/maix-iv/manifest.json").read_text())
    with Bench(disk, board, manifest, root, tmp_path / "c.cast", Options()) as bench:
        assert "blkdevparts=mmcblk0:" in bench.console.run("cat /proc/cmdline").line
        mounted = bench.console.run("findmnt -no SOURCE /").line
        assert mounted.startswith("/dev/mmcblk0p"), mounted
        assert bench.console.run("systemctl is-system-running --wait || true", 600).line == "running"


def test_a_running_board_writes_its_other_disk_over_the_serial_line(quick: Path, tmp_path: Path) -> None:
    """The board's own system knows which disk it runs from, and makes the digests of what is on its card."""
    board, root = machine()
    manifest = json.loads((quick / "manifest.json").read_text())
    second = tmp_path / "second"
    second.write_bytes(b"\xaa" * (8 * MIB))
    data = b"".join(bytes([number % 251]) * 4096 for number in range(256))
    (tmp_path / "x.img").write_bytes(data)
    (tmp_path / "x.bmap").write_text(bmap(data))
    drive = f"if=none,id=second,format=raw,snapshot=on,file={qemu.FILES}/second"
    options = qemu.Options(
        devices=("sdhci-pci", "sd-card,drive=second"),
        arguments=("-drive", drive),
        files={"second": second},
    )
    image = find(tmp_path / "x.img")
    with Bench(
        quick / "rock5b.img", board, manifest, root, tmp_path / "c.cast", Options(qemu=options)
    ) as bench:
        found = disks(bench.console, image.bmap.image_size)
        root_disk = bench.console.run("lsblk -no PKNAME $(findmnt -no SOURCE /)").line
        with pytest.raises(InputError, match="it carries the running system"):
            the_disk(root_disk, found)
        device = the_disk("mmcblk0", found)
        assert (device.bus, device.size) == ("sd", 8 * MIB)
        assert the_disk(device.serial, found) == device
        medium = BoardDisk(bench.console, device, Line(bench.console))
        done = flash(image, medium, Journal(tmp_path / "journal.json", "x"))
        assert (done.rewritten, done.resumed) == (0, False)
        told = bench.console.run(f"head -c {len(data)} {device.path}|sha256sum").line.split()[0]
        assert told == hashlib.sha256(data).hexdigest()
        tail = bench.console.run(f"tail -c {MIB} {device.path}|tr -d '\\0'|wc -c").line
        assert tail == "0"


def bmap(data: bytes) -> str:
    text = (
        f'<?xml version="1.0" ?>\n<bmap version="2.0"><ImageSize>{len(data)}</ImageSize>\n'
        f"<BlockSize>4096</BlockSize><BlocksCount>{len(data) // 4096}</BlocksCount>\n"
        f"<MappedBlocksCount>{len(data) // 4096}</MappedBlocksCount><ChecksumType>sha256</ChecksumType>\n"
        f"<BmapFileChecksum>{'0' * 64}</BmapFileChecksum><BlockMap>\n"
        f'<Range chksum="{hashlib.sha256(data).hexdigest()}">0-{len(data) // 4096 - 1}</Range>\n'
        "</BlockMap></bmap>\n"
    )
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest(), 1)
