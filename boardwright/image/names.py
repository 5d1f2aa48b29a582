"""What the image of a board is called: a disk with a GPT, or the emulated eMMC of a board without a table."""

from __future__ import annotations

from pathlib import Path

from boardwright.schema.board import Board

DISK, EMMC = ".img", ".emmc.qcow2"


def has_no_table(board: Board) -> bool:
    """Whether the kernel's command line names the partitions, rather than a GPT."""
    return board.disk.table == "blkdevparts"


def image_name(board: Board) -> str:
    """What a build of the board publishes, and the emulator boots."""
    return f"{board.board}{EMMC if has_no_table(board) else DISK}"


def is_emmc(image: Path) -> bool:
    """Whether an image is an emulated eMMC rather than a disk with a GPT."""
    return image.name.endswith(EMMC)
