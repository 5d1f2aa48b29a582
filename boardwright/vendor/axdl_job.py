"""What a download does, worked out and checked before the board is there.

Source: the vendor's U-Boot 2020.04, ``cmd/axera/download/fdl_engine.c`` and ``sparse_img.c``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from boardwright.errors import InputError
from boardwright.vendor import sparse
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import REST, Image, Kind, Table, Unit

NAME_BYTES = 72
_ENTRY = struct.Struct(f"<{NAME_BYTES}s2Q")
_BOOTARGS = 512
"""The loader puts its bootargs together in so many bytes, without looking (cmd_repartition)."""
_PREFIX = 239
"""What its own take of them before the table (``ax650_common.h``, BOOTARGS_EMMC); it depends on the build."""
_NOT_SPARSE = ("spl", "uboot")


@dataclass(frozen=True, slots=True)
class Job:
    """What a download does: loaders with the word each greets with afterwards, the table, the images."""

    package: Package
    loaders: tuple[tuple[Image, str], ...]
    table: bytes | None
    images: tuple[Image, ...]


def prepare(package: Package, *, only: Collection[str] | None = None, table: bool | None = None) -> Job:
    """Everything that can be known before the board is there; reads all that will be sent once.

    Worth calling first where the port appears only while the ROM waits, which is some 10 s.
    """
    project = package.project
    images = _wanted(project.of_kind(Kind.CODE), only)
    loaders = tuple(_loaders(package))
    wanted = project.table.strategy == 1 and (only is None if table is None else table)
    record = table_record(project.table) if wanted else None
    for image in images:
        _check_image(package, image)
    names = {image.file for image in (*images, *(image for image, _ in loaders)) if image.file}
    for finding in package.verify(names):
        if not finding.good:
            raise InputError(f"{finding.member}: {finding.text}")
    return Job(package, loaders, record, images)


def table_record(table: Table) -> bytes:
    """The table as the loader takes it. Raises ``InputError`` for one that its bootargs cannot hold.

    Name at 0, size at 72, gap at 80 of an entry: ``fdl_engine.c``. (axdl-rs puts the gap at 64; every known
    table has gaps of 0, where both agree.)
    """
    if table.unit not in (Unit.MIB, Unit.KIB_512, Unit.KIB):
        raise InputError(
            f"the AX650's loader writes no bootargs for a table in {table.unit.bytes}-byte units",
            hint="use unit 2, KiB",
        )
    text = bootargs_table(table)
    if _PREFIX + len(text) + 2 > _BOOTARGS:  # a comma and the end
        raise InputError(
            f"the table takes {len(text)} characters of bootargs, the loader has room for "
            f"{_BOOTARGS - _PREFIX - 2} and does not look",
            hint="use fewer partitions, or shorter names",
        )
    entries = b"".join(
        _ENTRY.pack(part.name.encode("utf-16-le"), REST if part.size is None else part.size, part.gap)
        for part in table.partitions
    )
    return struct.pack("<4s2BH", b"par:", table.strategy, table.unit, len(table.partitions)) + entries


def bootargs_table(table: Table) -> str:
    """The table as the loader writes it after ``blkdevparts=mmcblk0:``, the rest of a disk at its longest."""
    suffix, factor = ("M", 1) if table.unit is Unit.MIB else ("K", table.unit.bytes // 1024)
    sizes = ((part.name, "9" * 10 if part.size is None else part.size * factor) for part in table.partitions)
    return ",".join(f"{size}{suffix}({name})" for name, size in sizes)


def _wanted(images: tuple[Image, ...], only: Collection[str] | None) -> tuple[Image, ...]:
    names = [image.name for image in images]
    if only is not None and (unknown := sorted(set(only) - set(names))):
        raise InputError(f"no image {', '.join(unknown)} to write", hint=f"there are {', '.join(names)}")
    chosen = tuple(image for image in images if only is None or image.name in only)
    if not chosen:
        raise InputError("there is no image to write")
    return chosen


def _loaders(package: Package) -> Iterator[tuple[Image, str]]:
    """One stage greets as fdl2. Of two, the second one's greeting is not waited for, as axdl-rs does not."""
    kinds = {Kind.FDL: "fdl2", Kind.FDL1: "fdl1", Kind.FDL2: ""}
    found = [(image, greeting) for kind, greeting in kinds.items() for image in package.project.of_kind(kind)]
    for number, (image, greeting) in enumerate(found):
        size = package.member(image.file).size if image.file else 0
        if not size:
            raise InputError(f"{image.name}: expected a file with bytes, found {image.file or 'none'}")
        if image.block is not None or (number == 0 and image.base + size > 2**32):
            raise InputError(f"{image.name}: expected an address below 4 GiB, found {image.base:#x}")
        yield image, greeting


def _check_image(package: Package, image: Image) -> None:
    if image.file is None or not package.member(image.file).size:
        raise InputError(f"{image.name}: expected a file with bytes, found {image.file or 'none'}")
    if image.block in _NOT_SPARSE and is_sparse(package, image):
        raise InputError(f"{image.name}: the loader takes no sparse image for {image.block}")


def is_sparse(package: Package, image: Image) -> bool:
    """Whether an image of the package is a sparse one."""
    with package.open(image.file or "") as stream:
        return sparse.is_sparse(stream.read(4))
