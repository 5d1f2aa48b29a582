"""The tool environments of these tests, and a disk image small enough to make in a second."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from boardwright.build.sandbox import Seal, argv

_GPT = """label: gpt
unit: sectors
1: start=2048, size=131072, type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, uuid=0B0B0B0B-0000-4000-8000-000000000001, name="boot"
2: start=133120, size=2048, type=B921B045-1DF0-41C3-AF44-4C6F280D3FAE, uuid=0B0B0B0B-0000-4000-8000-000000000002, name="root"
"""  # noqa: E501


def qemu_root() -> Path:
    """The environment tools-qemu; skips the test when BOARDWRIGHT_TEST_QEMU names none."""
    return _environment("BOARDWRIGHT_TEST_QEMU", "usr/bin/qemu-system-aarch64")


def image_root() -> Path:
    """The environment tools-image; skips the test when BOARDWRIGHT_TEST_TOOLS names none."""
    return _environment("BOARDWRIGHT_TEST_TOOLS", "sbin/mke2fs")


def _environment(variable: str, program: str) -> Path:
    root = os.environ.get(variable)
    if not root or not (Path(root) / program).exists():
        pytest.skip(f"{variable} does not name a tool environment with {program}")
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    return Path(root)


def sealed(script: str, directory: Path) -> None:
    """Run a script in tools-image with ``directory`` as /out."""
    seal = Seal(root=image_root(), writable={"/out": directory}, directory="/out")
    subprocess.run(argv(seal, ["bash", "-euc", script]), check=True, capture_output=True)


def small_image(directory: Path, extlinux: str, kernel: bytes = b"no kernel at all") -> Path:
    """An image with a FAT boot partition that holds ``extlinux.conf`` and ``/Image``."""
    (directory / "table").write_text(_GPT)
    (directory / "extlinux.conf").write_text(extlinux)
    (directory / "Image").write_bytes(kernel)
    sealed(
        "truncate -s 72M disk.img; sfdisk -q disk.img < table;"
        "mkfs.vfat -F 32 --offset 2048 disk.img 65536 >/dev/null;"
        "export MTOOLS_SKIP_CHECK=1; mmd -i disk.img@@1048576 ::/extlinux;"
        "mcopy -i disk.img@@1048576 extlinux.conf ::/extlinux/extlinux.conf;"
        "mcopy -i disk.img@@1048576 Image ::/Image",
        directory,
    )
    return directory / "disk.img"
