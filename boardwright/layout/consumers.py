"""Everything that has to know where the partitions are and where Linux ends, made from one description.

The AX650's eMMC has no partition table, so the same numbers stand in the environment of U-Boot, in fstab, in
``fw_env.config``, in the index of a flash package, in the names of update files, and in a load script.
``boardwright.layout.agreement`` reads each of them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from boardwright.layout import bootargs as words
from boardwright.layout import partitions, split_rules
from boardwright.layout.blkdevparts import ENVIRONMENT
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Split
from boardwright.schema.board import Board
from boardwright.vendor import axera_xml, uboot_env

NO_UPDATE = ("env", "uboot-backup")
"""Update sets of the SDK carry neither (build/make_ota_pkg.sh)."""


@dataclass(frozen=True, slots=True)
class Consumers:
    """Each as it is stored or sent. What is None or empty is not there, and nothing is said about it.

    ``environment``: U-Boot's block. ``updates``: file on a card, a stick or a TFTP server → partition.
    """

    bootargs: str | None = None
    environment: bytes | None = None
    fstab: str | None = None
    fw_env: str | None = None
    axp: axera_xml.Table | None = None
    updates: Mapping[str, str] | None = None
    load_script: str | None = None


def derive(board: Board) -> Consumers:
    """All of a board's consumers. Raises ``InputError`` for a layout or split that cannot be."""
    text = words.bootargs(board)
    table = partitions.resolve(board.disk, board.partitions)
    split = split_rules.resolve(board.memory)
    return Consumers(
        bootargs=text,
        environment=uboot_env.make(uboot_env.Environment({"bootargs": text})),
        fstab=fstab(table),
        fw_env=fw_env(table),
        axp=axp(table),
        updates=updates(table),
        load_script=f"{load_line(split)}\n" if split else None,
    )


def fstab(table: Table) -> str:
    """A line for each partition that is mounted, those nearer to the root first."""
    mounted = sorted((p.mount, p) for p in table.partitions if p.mount)
    return "".join(
        f"{table.path(p)}  {at}  {p.filesystem}  {_options(p)}  0 {1 if at == '/' else 2}\n"
        for at, p in mounted
    )


def _options(partition: PlacedPartition) -> str:
    """Only the root must be there for the board to come up; systemd grows a file system when it mounts it."""
    grow = ["x-systemd.growfs"] if partition.grow else []
    return ",".join(["defaults", "noatime", *grow, *([] if partition.mount == "/" else ["nofail"])])


def fw_env(table: Table) -> str:
    """``fw_env.config`` of U-Boot's tools: device, offset, size, and the sector size the SDK writes."""
    return f"{table.path(table.holding('env'))} 0x0 0x{ENVIRONMENT:x} 0x100\n"


def axp(table: Table) -> axera_xml.Table:
    """The index's table, sizes exact, also the last one's: KiB, or sectors where those are not exact."""
    whole = all(p.size % 1024 == 0 for p in table.partitions)
    unit = axera_xml.Unit.KIB if whole else axera_xml.Unit.SECTOR
    return axera_xml.Table(
        tuple(axera_xml.Partition(p.name, p.size // unit.bytes) for p in table.partitions), unit
    )


def updates(table: Table) -> dict[str, str]:
    """The files U-Boot looks for when it updates from a card, a stick or TFTP, and where each goes."""
    return {update_name(p): p.name for p in table.partitions if p.contents not in NO_UPDATE}


def update_name(partition: PlacedPartition) -> str:
    """``NAME.img``, but ``uboot.bin`` (U-Boot 2020.04 of the SDK, ``cmd/axera/sd_update``)."""
    return f"{partition.name}.{'bin' if partition.contents == 'uboot' else 'img'}"


def load_line(split: Split) -> str:
    """The line of the vendor's load script."""
    return f"insmod /soc/ko/ax_cmm.ko cmmpool={split.cmmpool}"
