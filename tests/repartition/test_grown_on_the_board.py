"""What is left to be grown after the restart is grown at the board's own shell: a real shell, a real ext4."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_shell import shell

from boardwright.console.console import Console
from boardwright.errors import ProductError
from boardwright.repartition import drive, ext4

MIB = 2**20


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with shell("sh", "-i") as found:
        yield found


def size(path: Path) -> int:
    data = path.read_bytes()
    found = ext4.superblock(lambda offset, length: data[offset : offset + length])
    assert found is not None
    return found.size


def test_what_is_not_mounted_is_checked_and_grown_and_once_more_changes_nothing(
    console: Console, tmp_path: Path
) -> None:
    path = tmp_path / "partition"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", str(path), "8M"], check=True)
    with path.open("r+b") as file:
        file.truncate(24 * MIB)
    assert size(path) == 8 * MIB
    for _ in range(2):
        drive.grow(console, str(path))
        assert size(path) == 24 * MIB
    subprocess.run(["e2fsck", "-f", "-n", str(path)], check=True, capture_output=True)


def test_what_is_mounted_is_left_to_resize2fs_whatever_its_name(console: Console, tmp_path: Path) -> None:
    # It has its size already: to give it more takes a capability that a container's root may lack. e2fsck
    # would refuse what is mounted.
    path, mount = tmp_path / "partition", tmp_path / "mounted"
    mount.mkdir()
    subprocess.run(["mke2fs", "-q", "-t", "ext4", str(path), "8M"], check=True)
    found = subprocess.run(
        ["losetup", "-f", "--show", str(path)], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr.strip()}")
    device = found.stdout.strip()
    try:
        alias = tmp_path / "root"  # as the kernel calls the root that it mounts itself
        alias.symlink_to(device)
        done = subprocess.run(
            ["mount", "-i", str(alias), str(mount)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no mount: {done.stderr.strip()}")
        try:
            drive.grow(console, device)
            assert (
                subprocess.run(["e2fsck", "-f", "-p", device], capture_output=True, check=False).returncode
                == 8
            )
        finally:
            subprocess.run(["umount", str(mount)], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def test_what_cannot_be_grown_is_said_in_the_words_of_the_program(console: Console, tmp_path: Path) -> None:
    path = tmp_path / "partition"
    path.write_bytes(bytes(MIB))
    with pytest.raises(ProductError, match=r"resize2fs .* ended with [1-9].*"):
        drive.grow(console, str(path))
