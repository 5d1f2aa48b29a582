"""Maix-IV without the vendor's files: built, booted on an emulated eMMC, judged; and with one of ours."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, invoke

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.build.sandbox import Seal, argv
from boardwright.errors import ExitStatus
from boardwright.image import names
from boardwright.schema.board import Board
from boardwright.targets import emmc
from boardwright.vendor import axera_package, sparse, uboot_env
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind, Project

sys.path.insert(0, str(ROOT / "tests/vendor"))
from packages import NOISE, headed
from test_vermagic import module

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # the kernel is compiled, where it is not in the store yet
MAGIC = "5.15.73 SMP preempt mod_unload aarch64"


@dataclass(frozen=True)
class Built:
    """What ``invoke build --board maix-iv`` left, with what is needed to boot copies of it."""

    out: Path
    image: Path
    manifest: dict[str, Any]
    board: Board
    qemu_root: Path
    tools_root: Path
    said: str


@pytest.fixture(scope="session")
def built() -> Built:
    from boardwright.build import executor
    from boardwright.kinds.board import QEMU_ENVIRONMENT
    from boardwright.verbs.build import builder
    from boardwright.verbs.common import request

    done = invoke("build", "--board", "maix-iv")
    assert done.returncode == 0, done.stderr
    asked = request(ROOT, "maix-iv", "")
    entries = executor.build(asked.plan(QEMU_ENVIRONMENT, "tools-image"), builder(asked))
    out, board = ROOT / "out/maix-iv", asked.context.board
    return Built(
        out,
        out / names.image_name(board),
        json.loads((out / "manifest.json").read_text()),
        board,
        entries[QEMU_ENVIRONMENT].out / "root",
        entries["tools-image"].out / "root",
        done.stderr,
    )


def sealed(root: Path, directory: Path, *command: str) -> str:
    seal = Seal(root=root, writable={"/work": directory}, directory="/work")
    done = subprocess.run(argv(seal, list(command)), check=True, capture_output=True, text=True)
    return done.stdout


def verdict(built: Built, image: Path, out: Path) -> tuple[int, dict[str, str], list[dict[str, Any]]]:
    """Exit status, of each check that failed why, and all checks."""
    status = bringup(image, built.board, built.manifest, built.qemu_root, out, Options())
    checks = json.loads((out / "bringup.json").read_text())["checks"]
    assert not [check for check in checks if check["outcome"] == "error"]
    failed = {check["check"]: check["detail"] for check in checks if check["outcome"] == "fail"}
    return status, failed, checks


def test_the_manifest_says_what_only_the_vendor_has(built: Built) -> None:
    left = built.manifest["left_out"]["vendor firmware"]
    for word in (".axp", "--vendor", "kernel", "U-Boot", "/soc"):
        assert word in left
    digest = hashlib.sha256(built.image.read_bytes()).hexdigest()
    assert built.manifest["artifacts"][built.image.name] == digest
    assert (built.out / "rootfs.img").stat().st_size < 2**30


def test_the_image_boots_and_every_check_of_the_board_holds(built: Built, tmp_path: Path) -> None:
    status, failed, checks = verdict(built, built.image, tmp_path)
    assert (status, failed) == (ExitStatus.OK, {})
    found = {check["check"]: (check["outcome"], check["evidence"]) for check in checks}
    assert found["Linux has the memory that the board file gives it"] == ("pass", "emulated")
    assert found["partitions are those of the board file, by name, place and size"] == ("pass", "emulated")
    assert found["every partition is mounted where the board file says"] == ("pass", "emulated")
    assert found["file systems that the board file lets grow fill their partitions"] == ("pass", "emulated")
    for modelled in (
        "CMM has the pools that the board file gives it, behind Linux",
        "CMM beside the kernel's memory, as mem= and the pools say",
        "drivers, run-time and models of /soc and /opt multiply matrices right",
        "token rates in the words of ax-llm are read off the console",
        "token rates in the words of axllm are read off the console",
    ):
        assert found[modelled] == ("pass", "modelled"), modelled


def test_an_environment_with_another_split_fails_with_both_sizes(built: Built, tmp_path: Path) -> None:
    image = tmp_path / built.image.name
    shutil.copyfile(built.image, image)
    bootargs = built.manifest["boot"]["bootargs"]
    assert "mem=3072M" in bootargs
    block = uboot_env.make(uboot_env.Environment({"bootargs": bootargs.replace("mem=3072M", "mem=2048M")}))
    (tmp_path / "block").write_bytes(block)
    write = f"write -q -s /work/block {emmc.ENVIRONMENT_AT} {len(block)}"
    sealed(built.qemu_root, tmp_path, "qemu-io", "-f", "qcow2", "-c", write, f"/work/{image.name}")
    status, failed, _ = verdict(built, image, tmp_path / "out")
    assert status is ExitStatus.PRODUCT
    assert failed.keys() == {
        "image is the one the manifest describes",
        "kernel command line as built",
        "Linux has the memory that the board file gives it",
    }
    linux = failed["Linux has the memory that the board file gives it"]
    assert linux == f"mem=: expected {3 * 2**30} bytes as the board file says, found {2 * 2**30}"


def test_a_damaged_environment_is_no_boot(built: Built, tmp_path: Path) -> None:
    image = tmp_path / built.image.name
    shutil.copyfile(built.image, image)
    write = f"write -q -P 0x55 {emmc.ENVIRONMENT_AT + 64} 16"
    sealed(built.qemu_root, tmp_path, "qemu-io", "-f", "qcow2", "-c", write, f"/work/{image.name}")
    status, failed, _ = verdict(built, image, tmp_path / "out")
    assert status is ExitStatus.PRODUCT
    assert "CRC-32" in failed["boots to a shell"]


def packed(path: Path) -> bytes:
    made = io.BytesIO()
    with path.open("rb") as file:
        sparse.pack(file, made)
    return made.getvalue()


def vendors_package(built: Built, directory: Path) -> Path:
    """A package in the shipped layout, file systems as large as their partitions, with bytes of ours."""
    from boardwright.layout import consumers, presets

    script = "insmod /soc/ko/ax_cmm.ko cmmpool=anonymous,0,0x200000000,4096M\n"
    trees = {
        "param": {}, "opt": {"data/npu/models/toy.axmodel": b"model"},
        "soc": {"scripts/auto_load_all_drv.sh": script.encode(), "ko/ax_cmm.ko": module(MAGIC)},
        "rootfs": {"etc/hostname": b"AXERA\n"},
    }  # fmt: skip
    table = presets.table(presets.PRESETS["pipro-box"].text)
    sizes = {p.name: p.size for p in table.partitions} | {"rootfs": 64 * 2**20}
    files: dict[str, bytes] = {
        "eip.bin": NOISE.randbytes(700), "fdl2_signed.bin": NOISE.randbytes(5500),
        "u-boot_signed.bin": NOISE.randbytes(900_000), "uboot_bk.bin": NOISE.randbytes(900_000),
        "logo.bmp": NOISE.randbytes(2000), "dtb.bin": headed(b"\xd0\x0d\xfe\xed" + NOISE.randbytes(3000)),
        "boot_signed.bin": headed(NOISE.randbytes(9000) + b"Linux version 5.15.73 (b@h)"),
        "atf.bin": headed(NOISE.randbytes(3000)), "optee.bin": headed(NOISE.randbytes(3000)),
    }  # fmt: skip
    blocks = ["uboot", "uboot_bk", "logo", "dtb", "kernel", "atf", "optee"]
    images = dict(zip(list(files)[2:], blocks, strict=True))
    for name, tree in trees.items():
        (directory / name).mkdir()
        for path, data in tree.items():
            (directory / name / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / name / path).write_bytes(data)
        options = [
            "-q",
            "-F",
            "-t",
            "ext4",
            "-b",
            "4096",
            "-d",
            name,
            f"{name}.ext4",
            f"{sizes[name] // 1024}K",
        ]
        sealed(built.tools_root, directory, "mke2fs", *options)
        files[f"{name}_sparse.ext4"] = packed(directory / f"{name}.ext4")
        images[f"{name}_sparse.ext4"] = name
    for name, data in files.items():
        (directory / name).write_bytes(data)
    listed = (
        Image("EIP", Kind.EIP, "eip.bin", flag=3),
        Image("FDL", Kind.FDL, "fdl2_signed.bin", base=0x14000000, flag=3),
        *(Image(block.upper(), Kind.CODE, file, block) for file, block in images.items()),
    )
    project = Project(consumers.axp(table), listed, 1, "AX650X", "AX650X_pipro_optee", "V1.45.0")
    target = directory / "AX650_pipro_box_V1.45.0.axp"
    axera_package.make(target, project, {name: directory / name for name in files})
    return target


def test_a_vendors_package_becomes_one_with_our_root_split_and_layout(built: Built, tmp_path: Path) -> None:
    theirs = vendors_package(built, tmp_path)
    done = invoke("build", "--board", "maix-iv", "--vendor", str(theirs))
    assert done.returncode == 0, done.stderr
    out = built.out / "vendor"
    manifest = json.loads((out / "manifest.json").read_text())
    for name, digest in manifest["artifacts"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest, name
    with Package(out / "maix-iv.axp") as package, Package(theirs) as before:
        assert [finding.text for finding in package.verify() if not finding.good] == []
        kept = {"eip.bin", "fdl2_signed.bin", "u-boot_signed.bin", "uboot_bk.bin", "logo.bmp", "dtb.bin"}
        kept |= {"boot_signed.bin", "atf.bin", "optee.bin", "param_sparse.ext4"}
        assert set(manifest["kept"]) == kept
        for name in kept:
            assert package.read(name, 2**30) == before.read(name, 2**30)
        root = tmp_path / "root.back"
        with root.open("xb") as file:
            sparse.unpack(io.BytesIO(package.read("rootfs_sparse.ext4", 2**31)), file)
        variables = uboot_env.parse(package.read("env.bin", 2**20)).variables
        rest = {p.name: p.size for p in package.project.table.partitions}
    # The vendor's kernel boots there: our root, without the modules of ours.
    release = built.manifest["kernel"]["release"]
    shutil.copy(built.out / "rootfs.img", tmp_path / "root.emulated")
    for name, there in (("root.back", False), ("root.emulated", True)):
        modules = sealed(built.tools_root, tmp_path, "debugfs", "-R", "ls -p /usr/lib/modules", name)
        assert (release in modules) is there
        found = sealed(built.tools_root, tmp_path, "debugfs", "-R", "cat /etc/fw_env.config", name)
        assert "/dev/mmcblk0p3 0x0 0x20000" in found
    assert variables["bootargs"] == built.manifest["boot"]["bootargs"]
    assert rest["opt"] == 2**20  # KiB: of the shipped four GiB three went to the root
    assert rest["rootfs"] == 27 * 2**20
    assert "0x1C0000000,5120M" in manifest["notes"]["cmmpool"]
    assert manifest["notes"]["vermagic"] == MAGIC
    assert (out / "update/AX650X_pipro_optee.xml").read_bytes().startswith(b"<?xml")


def test_what_is_no_package_costs_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "no.axp").write_bytes(b"PK\x03\x04 no")
    done = invoke("build", "--board", "maix-iv", "--vendor", str(tmp_path / "no.axp"))
    assert done.returncode == ExitStatus.INPUT, done.stderr
    assert "no.axp" in done.stderr
    done = invoke("build", "--board", "rock5b", "--vendor", str(tmp_path / "no.axp"))
    assert done.returncode == ExitStatus.INPUT
    assert "takes no vendor's package" in done.stderr
