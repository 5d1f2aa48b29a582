"""Packages for tests, as a vendor's would be, with bytes of ours."""

from __future__ import annotations

import io
import random
from pathlib import Path

from boardwright.vendor import axera_header, axera_package, sparse
from boardwright.vendor.axera_xml import Image, Kind, Partition, Project, Table

NOISE = random.Random(650)
BLOCK = 4096

TABLE = Table(
    (
        Partition("uboot", 1536),
        Partition("env", 1024),
        Partition("dtb", 1024),
        Partition("rootfs", 8192),
        Partition("opt", None),
    )
)


def headed(payload: bytes) -> bytes:
    target = io.BytesIO()
    axera_header.wrap(io.BytesIO(payload), target)
    return target.getvalue()


def packed(data: bytes) -> bytes:
    target = io.BytesIO()
    sparse.pack(io.BytesIO(data), target)
    return target.getvalue()


RAW_ROOTFS = NOISE.randbytes(40 * BLOCK) + bytes(20 * BLOCK) + b"abcd" * BLOCK
FILES = {
    "eip.bin": NOISE.randbytes(700),
    "fdl2_signed.bin": NOISE.randbytes(5500),
    "u-boot_signed.bin": NOISE.randbytes(100_000),
    "box.dtb": headed(b"\xd0\x0d\xfe\xed" + NOISE.randbytes(3000)),
    "rootfs_sparse.ext4": packed(RAW_ROOTFS),
}
IMAGES = (
    Image("INIT", Kind.INIT, flag=2, identifier="INIT", description="Handshake"),
    Image("EIP", Kind.EIP, "eip.bin", base=0x3000000, flag=3, identifier="EIP"),
    Image("FDL", Kind.FDL, "fdl2_signed.bin", base=0x14000000, flag=3, identifier="FDL"),
    Image("ERASEENV", Kind.ERASE, None, "env", flag=0, select=0, identifier="ERASEENV"),
    Image("UBOOT", Kind.CODE, "u-boot_signed.bin", "uboot", identifier="UBOOT"),
    Image("DTB", Kind.CODE, "box.dtb", "dtb", identifier="DTB"),
    Image("ROOTFS", Kind.CODE, "rootfs_sparse.ext4", "rootfs", identifier="ROOTFS"),
)
PROJECT = Project(TABLE, IMAGES, 1, "AX650X", "AX650X_test", "V0.0.0")


def stored(directory: Path, files: dict[str, bytes] | None = None) -> dict[str, Path]:
    """The files on disk, by name."""
    directory.mkdir(exist_ok=True)
    paths = {}
    for name, data in (FILES | (files or {})).items():
        paths[name] = directory / name
        paths[name].write_bytes(data)
    return paths


def made(
    tmp_path: Path, project: Project = PROJECT, files: dict[str, bytes] | None = None, name: str = "box.axp"
) -> Path:
    target = tmp_path / name
    axera_package.make(target, project, stored(tmp_path / "files", files))
    return target
