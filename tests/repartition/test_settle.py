"""A board switched off by its plug: journals are replayed through the partitions of a real block device."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardwright.repartition import __main__ as program
from boardwright.repartition import ext4, parts, ubootenv

MIB = 2**20
LAYOUT = "mmcblk0:3M(uboot),1M(env),16M(rootfs),16M(soc)"
ROOT = "/dev/mmcblk0p3"
SETTLE = ["settle", "--environment", str(3 * MIB)]


def tool(*words: object, **more: str) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """``soc`` has a transaction in its journal that never reached its place; ``rootfs`` is clean."""
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(40 * MIB)
        file.seek(3 * MIB)
        file.write(ubootenv.make({"bootargs": f"root={ROOT} blkdevparts={LAYOUT}"}))
    for part in parts.parse(LAYOUT, "mmcblk0", 40 * MIB)[2:]:
        one = tmp_path / part.name
        tool("mke2fs", "-q", "-t", "ext4", one, "16M")
        if part.name == "soc":
            (tmp_path / "block").write_bytes(b"\xa5" * 1024)
            (tmp_path / "write").write_text(f"jo\njw -b 9000 {tmp_path}/block\njc\n")
            tool("debugfs", "-w", "-f", tmp_path / "write", one)
        tool(
            "dd",
            f"if={one}",
            f"of={path}",
            "bs=1M",
            f"seek={part.offset // MIB}",
            "conv=notrunc",
            "status=none",
        )
    return path


@pytest.fixture
def device(disk: Path) -> Iterator[Path]:
    """The disk as a kernel has it that was told of its partitions by name and size."""
    done = subprocess.run(
        ["losetup", "--find", "--show", str(disk)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    path = Path(done.stdout.strip())
    try:
        for number, part in enumerate(parts.parse(LAYOUT, "mmcblk0", 40 * MIB), start=1):
            tool("addpart", path, number, part.offset // 512, part.size // 512)
            _node(Path(f"{path}p{number}"))
        yield path
    finally:
        for number in range(1, 5):
            subprocess.run(["delpart", path, str(number)], check=False)
            Path(f"{path}p{number}").unlink(missing_ok=True)
        tool("losetup", "--detach", path)


def _node(path: Path) -> None:
    """Where no udev makes it."""
    if not path.exists():
        major, minor = map(int, Path(f"/sys/class/block/{path.name}/dev").read_text().split(":"))
        os.mknod(path, 0o600 | 0o060000, os.makedev(major, minor))


def clean(path: Path, name: str) -> bool:
    part = next(part for part in parts.parse(LAYOUT, "mmcblk0", 40 * MIB) if part.name == name)
    data = path.read_bytes()[part.offset : part.end]
    found = ext4.superblock(lambda offset, length: data[offset : offset + length])
    assert found is not None
    return found.clean


def test_what_needs_it_is_replayed_and_the_plan_knows_what_is_used(
    device: Path, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--device", str(device), "--stick", str(tmp_path / "stick")]
    smaller = LAYOUT.replace("16M(soc)", "8M(soc)")
    plan = [*words, "plan", *SETTLE[1:], "--to", smaller, "--stick-root", "LABEL=stick", "--root", ROOT]
    assert (clean(disk, "rootfs"), clean(disk, "soc")) == (True, False)
    assert program.main(plan) == 1
    assert "it was not unmounted in order, so all of it counts" in capsys.readouterr().err

    assert program.main([*words, *SETTLE]) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith("soc was not unmounted in order; its journal is replayed")
    tool("blockdev", "--flushbufs", device)
    assert clean(disk, "soc")
    at = 20 * MIB + 9000 * 1024
    assert disk.read_bytes()[at : at + 1024] == b"\xa5" * 1024, "what only the journal had is in its place"

    assert program.main(plan) == 0
    assert program.main([*words, *SETTLE]) == 0
    assert "replayed" not in capsys.readouterr().out


def settle(device: Path, tmp_path: Path) -> int:
    return program.main(["--device", str(device), "--stick", str(tmp_path / "stick"), *SETTLE])


def test_a_damaged_journal_is_mended_in_the_words_of_e2fsck(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tool("debugfs", "-R", "blocks <8>", tmp_path / "soc").split()[0]  # the journal's own superblock
    with device.open("r+b") as file:
        file.seek(20 * MIB + int(first) * 1024)
        file.write(b"\xff" * 1024)
    assert settle(device, tmp_path) == 0
    assert "e2fsck mended it: " in (said := capsys.readouterr().out)
    assert "journal has been regenerated" in said


def test_what_e2fsck_cannot_open_is_a_refusal_in_its_words(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(f"{device}p4").unlink()
    assert settle(device, tmp_path) == 1
    said = capsys.readouterr().err
    assert f"soc: its journal cannot be replayed, e2fsck of {device}p4 ended with 8: " in said
    assert "No such file" in said
    assert "shut it down in order" in said
