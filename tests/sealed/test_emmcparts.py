"""Partitions as files: each as its kind asks, the same bytes twice, a clear word when one does not fit."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from imaging import CODE, EPOCH, tools

from boardwright.build.sandbox import Seal, argv
from boardwright.kinds import emmc
from boardwright.vendor import axera_header

MIB = 2**20
SEALED = emmc.SEALED
KERNEL = bytes(range(256)) * 4096
MODEL = b"weights" * 300_000
EXT4 = {
    "kind": "ext4", "spare": 0, "requires": [], "label": "data",
    "uuid": "d9f5a0f6-64f3-4e3b-9a50-4d2a6d1c0a01",
    "hash-seed": "d9f5a0f6-64f3-4e3b-9a50-4d2a6d1c0a02",
}  # fmt: skip


def tarball(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in sorted({name.partition("/")[0] for name in files}):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode, directory.mtime = tarfile.DIRTYPE, 0o755, EPOCH
            tar.addfile(directory)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o755, EPOCH
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def run(tmp_path: Path, parts: list[dict[str, Any]], name: str = "out") -> subprocess.CompletedProcess[str]:
    """The step, as it is run."""
    inputs, out, work = tmp_path / "in", tmp_path / name, tmp_path / f"{name}.work"
    (inputs / "kernel").mkdir(parents=True, exist_ok=True)
    (inputs / "kernel/Image").write_bytes(KERNEL)
    (inputs / "soc.tar").write_bytes(
        tarball({"scripts/load.sh": b"#!/bin/sh\n", "lib/x.so": b"\x7fELF" * 9000})
    )
    (inputs / "files/opt/models").mkdir(parents=True, exist_ok=True)
    (inputs / "files/opt/models/toy.bin").write_bytes(MODEL)
    (inputs / "parts.json").write_text(json.dumps({"parts": parts}))
    for directory in (out, work):
        directory.mkdir()
        directory.chmod(0o777)
    given = {f"/in/{path.name}": path for path in inputs.iterdir()}
    seal = Seal(
        root=tools(),
        read_only=given | {f"/in/sealed/{sealed}": CODE / "sealed" / sealed for sealed in SEALED},
        writable={"/work": work, "/out": out},
        variables={"SOURCE_DATE_EPOCH": str(EPOCH)},
        directory="/work",
    )
    script = (CODE / "kinds/emmc_parts.sh").read_text()
    command = argv(seal, ["/bin/bash", "-euo", "pipefail", "-c", script])
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


PARTS: list[dict[str, Any]] = [
    {
        "name": "env",
        "size": MIB,
        "kind": "bytes",
        "base64": base64.b64encode(b"env").decode(),
        "length": 4096,
    },
    {"name": "kernel", "size": 8 * MIB, "kind": "image", "source": "kernel/Image"},
    {"name": "soc", "size": 512 * MIB, "tar": "soc.tar", **EXT4},
    {"name": "param", "size": 20 * MIB, "tar": None, **EXT4},
]


def test_each_kind_is_what_it_asks_for(tmp_path: Path) -> None:
    done = run(tmp_path, PARTS)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert set(made) == {"env.img", "kernel.img", "soc.img", "param.img"}
    assert made["env.img"].read_bytes() == b"env".ljust(4096, b"\0")
    with made["kernel.img"].open("rb") as file:
        header, digest = axera_header.check(file)
    assert (header.payload_size, str(digest)) == (len(KERNEL), "matches")
    # No larger than it must be: what is flashed is short, and grows on the board.
    assert made["soc.img"].stat().st_size < 100 * MIB
    assert made["param.img"].stat().st_size == 20 * MIB
    assert b"\x7fELF" * 9000 in made["soc.img"].read_bytes()


def test_the_same_bytes_come_out_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run(tmp_path, PARTS, name).returncode == 0
    for part in PARTS:
        first, second = ((tmp_path / name / f"{part['name']}.img").read_bytes() for name in ("one", "two"))
        assert first == second, part["name"]


@pytest.mark.parametrize(("index", "change", "said"), [
    (1, {"size": MIB}, "partition kernel is too small by 1,024 bytes: it has 1,048,576"),
    (2, {"size": 16 * MIB}, "partition soc is too small by"),
    (2, {"requires": ["/lib/init"]}, "partition soc lacks /lib/init"),
    (2, {"tar": "kernel/Image"}, "Image is not a tarball"),
    (1, {"source": "kernel/nothing"}, "No such file or directory"),
])  # fmt: skip
def test_what_does_not_fit_is_told(tmp_path: Path, index: int, change: dict[str, Any], said: str) -> None:
    done = run(tmp_path, [{**PARTS[index], **change}])
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_files_are_laid_over_a_tarball_and_names_are_left_out(tmp_path: Path) -> None:
    part = {**PARTS[2], "files": "files/opt", "without": ["lib/*"]}
    given = [part, {"name": "given", "size": MIB * 8, "kind": "tar", "files": "files/opt"}]
    done = run(tmp_path, given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soc: 1 names left out: lib/*" in done.stdout
    raw = (tmp_path / "out/soc.img").read_bytes()
    assert MODEL in raw
    assert b"\x7fELF" * 9000 not in raw
    with tarfile.open(tmp_path / "out/given.tar") as tar:
        assert [(m.name, m.uid, m.mtime) for m in tar] == [("models", 0, EPOCH), ("models/toy.bin", 0, EPOCH)]
        file = tar.extractfile("models/toy.bin")
        assert file is not None
        assert file.read() == MODEL


def test_files_for_which_a_partition_has_no_room_are_told_with_both_numbers(tmp_path: Path) -> None:
    done = run(tmp_path, [{**PARTS[2], "files": "files/opt", "size": 32 * MIB}])
    assert done.returncode == 1
    assert "partition soc is too small by 37,748,736 bytes: it has 33,554,432, what goes" in done.stderr
