"""A card that ``invoke flash`` wrote boots, as an SD card of QEMU, to a shell on ``mmcblk0``.

The card held 0xAA everywhere before. QEMU 10 lets nobody add an eMMC (boardwright/targets/emmc.py says why),
and Linux has one driver for both.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, invoke

from boardwright.bringup.bench import Bench, Options
from boardwright.errors import InputError
from boardwright.flash.boarddisk import BoardDisk, disks, the_disk
from boardwright.flash.journal import Journal
from boardwright.flash.line import Line
from boardwright.flash.run import flash
from boardwright.flash.source import find
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


def test_a_running_board_writes_its_other_disk_over_the_serial_line(quick: Path, tmp_path: Path) -> None:
    """The board's own system knows which disk it runs from, and makes the digests of what is on the other."""
    board, root = machine()
    manifest = json.loads((quick / "manifest.json").read_text())
    second = tmp_path / "second"
    second.write_bytes(b"\xaa" * (8 * MIB))
    data = b"".join(bytes([number % 251]) * 4096 for number in range(256))
    (tmp_path / "x.img").write_bytes(data)
    (tmp_path / "x.bmap").write_text(bmap(data))
    drive = f"if=none,id=second,format=raw,snapshot=on,file={qemu.FILES}/second"
    options = qemu.Options(
        devices=("virtio-blk-pci,drive=second,serial=EMMC0001",),
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
        device = the_disk("EMMC0001", found)
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
