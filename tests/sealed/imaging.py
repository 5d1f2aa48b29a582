"""A small board whose image is made in the sandbox by the image step's own script."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from boardwright.build.sandbox import Seal, argv
from boardwright.layout.description import describe
from boardwright.layout.partitions import resolve
from boardwright.schema.board import Disk, Hole, Partition
from boardwright.schema.units import Size

CODE = Path(__file__).parents[2] / "boardwright"
SEALED = ("bmap.py", "boot.py", "gpt.py", "image.py", "inuse.py", "root.py", "tooling.py")
EPOCH = 1_700_000_000
RELEASE = "6.12.1-test"
RESOURCE = "BOARDWRIGHT_TEST_TOOLS"


def tools() -> Path:
    """The unpacked environment ``tools-image``. Skips the test when none is named."""
    root = os.environ.get(RESOURCE)
    if not root or not (Path(root) / "sbin/mke2fs").exists():
        pytest.skip(f"{RESOURCE} does not name an unpacked tools-image environment")
    if not shutil.which("bwrap"):
        pytest.skip("bwrap is not installed")
    return Path(root)


def sandboxed(
    script: str,
    out: Path,
    inputs: Path | None = None,
    variables: Mapping[str, str] | None = None,
    prefix: list[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a script as a step is run: ``/in``, ``/work``, ``/out``, no network, a fixed environment."""
    work = out.parent / f"{out.name}.work"
    for directory in (out, work):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    given = {} if inputs is None else {f"/in/{path.name}": path for path in inputs.iterdir()}
    seal = Seal(
        root=tools(),
        read_only=given | {f"/in/sealed/{name}": CODE / "sealed" / name for name in SEALED},
        writable={"/work": work, "/out": out},
        variables={"JOBS": "2", "SOURCE_DATE_EPOCH": str(EPOCH), **(variables or {})},
        directory="/work",
    )
    command = [*(prefix or []), *argv(seal, ["/bin/bash", "-euo", "pipefail", "-c", script])]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def make(inputs: Path, out: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The image step."""
    return sandboxed((CODE / "kinds/image.sh").read_text(), out, inputs, **options)


def made(inputs: Path, out: Path, **options: Any) -> Path:
    """The image that the step makes; fails the test when it does not."""
    result = make(inputs, out, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return out / "board.img"


def layout(change: Callable[[dict[str, Any]], None] | None = None, **sizes: str) -> str:
    """``layout.json`` of a disk of 256 MiB, loader at 32 KiB; ``change`` may spoil it."""
    size = {"disk": "256MiB", "boot": "48MiB", "root": "160MiB", **sizes}
    holes = [
        Hole(name="idbloader", offset=Size.parse("32KiB"), size=Size.parse("1MiB"), contents="idbloader.img"),
        Hole(name="spare", offset=Size.parse("2MiB"), size=Size.parse("1MiB")),
    ]
    disk = Disk(size=Size.parse(size["disk"]), first_partition=Size.parse("4MiB"), holes=holes)
    partitions = [
        Partition(name="boot", size=Size.parse(size["boot"]), filesystem="vfat", contents="boot"),
        Partition(
            name="root", size=Size.parse(size["root"]), filesystem="ext4", contents="rootfs", grow=True
        ),
    ]
    text = describe(
        resolve(disk, partitions),
        "digest of the locks",
        board="board",
        boot_files={
            "Image": "kernel/Image",
            "dtbs": "kernel/dtbs",
            "extlinux/extlinux.conf": "extlinux.conf",
            "initrd.img": "kernel/initrd-6.12.img",
        },
        loader={"idbloader.img": "loader/idbloader.img"},
        requires=["/etc/os-release"],
        release="kernel/release",
    )
    if change is None:
        return text
    value = json.loads(text)
    change(value)
    return json.dumps(value)


def write_inputs(inputs: Path, tar: bytes | None = None, text: str | None = None) -> Path:
    """``/in`` of the step."""
    for name in ("kernel/dtbs/rockchip", "loader"):
        (inputs / name).mkdir(parents=True)
    (inputs / "kernel/Image").write_bytes(_noise(3_000_001))
    (inputs / "kernel/initrd-6.12.img").write_bytes(_noise(70_000))
    (inputs / "kernel/release").write_text(f"{RELEASE}\n")
    for number in range(40):
        (inputs / f"kernel/dtbs/rockchip/rk3588-board-with-a-long-name-{number:02}.dtb").write_bytes(
            _noise(5000 + number)
        )
    (inputs / "loader/idbloader.img").write_bytes(_noise(300_000))
    (inputs / "extlinux.conf").write_text("default boardwright\n")
    (inputs / "rootfs.tar").write_bytes(rootfs() if tar is None else tar)
    (inputs / "layout.json").write_text(layout() if text is None else text)
    return inputs


@functools.cache
def rootfs(extra: int = 0, without: str = "") -> bytes:
    """A tarball of a root with what the step asks for, odd names, links, a sparse file and owners."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in (
            ".",
            "etc",
            "usr",
            "usr/lib",
            "usr/lib/modules",
            f"usr/lib/modules/{RELEASE}",
            "home",
            "home/u",
        ):
            _add(tar, name, tarfile.DIRTYPE)
        files = {
            "etc/os-release": b"ID=debian\n",
            f"usr/lib/modules/{RELEASE}/modules.dep": b"",
            "usr/lib/big": _noise(9_000_000),
            "usr/lib/zeros": bytes(5_000_000),
            "home/u/name with spaces": b"x",
            "home/u/" + "long" * 50: b"y" * 100,
            "home/u/größe": b"z" * 4096,
        }
        files |= {f"usr/lib/lib{number}.so": _noise(2000 + 37 * number) for number in range(300)}
        files |= {f"usr/lib/extra{number}": _noise(2**20) for number in range(extra)}
        for name, data in files.items():
            if name != without:
                _add(tar, name, tarfile.REGTYPE, data)
        _add(tar, "lib", tarfile.SYMTYPE, link="usr/lib")
        _add(tar, "etc/mtab", tarfile.SYMTYPE, link="../proc/self/" + "m" * 70)
        _add(tar, "usr/lib/hard", tarfile.LNKTYPE, link="usr/lib/lib7.so")
    return stream.getvalue()


def _add(tar: tarfile.TarFile, name: str, kind: bytes, data: bytes = b"", link: str = "") -> None:
    info = tarfile.TarInfo(f"./{name}" if name != "." else name)
    info.type, info.size, info.linkname, info.mtime = kind, len(data), link, EPOCH
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    if name.startswith("home/u"):
        info.uid = info.gid = 1000
    tar.addfile(info, io.BytesIO(data))


@functools.cache
def _noise(length: int) -> bytes:
    """Bytes that do not compress, the same every time."""
    import random

    return random.Random(length).randbytes(length)
