"""The words that a board without a partition table boots with: made from its board file, and read back.

An environment's ``bootargs`` replaces the value compiled into U-Boot as a whole (U-Boot 2020.04 of the AX650
SDK, ``cmd/axera/download/sparse_img.c``), so all of it is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from boardwright.errors import InputError
from boardwright.layout import blkdevparts, partitions, split_rules
from boardwright.layout import split as splits
from boardwright.layout.extents import LayoutError, Table
from boardwright.layout.split import Split
from boardwright.schema.board import Board, Memory

MADE = ("mem", "root", "rootfstype", "blkdevparts")
"""Words that come from the layout and nowhere else."""
TYPED_MOST = 1023 - len("setenv bootargs ''")
"""``CONFIG_SYS_CBSIZE`` is 1024 with the final NUL (SDK, ``include/configs/ax650_common.h``): a longer line
cannot be typed at U-Boot's prompt. The kernel's own limit, ``COMMAND_LINE_SIZE``, is 2048 on arm64."""


def bootargs(board: Board) -> str:
    """All of ``bootargs``. Raises ``InputError`` for a layout or a split that cannot be."""
    for fault in faults(board):
        raise fault
    table = partitions.resolve(board.disk, board.partitions)
    return compose(table, split_rules.resolve(board.memory), board.boot.append)


def compose(table: Table, split: Split | None, append: str) -> str:
    """``mem=``, the words of ``append``, then root and partitions, in the order of the SDK's own bootargs."""
    root = ["rootfstype=ext4", "rw", "rootwait", f"root={table.path(table.holding('rootfs'))}"]
    mem = [f"mem={split.mem}"] if split else []
    parts = f"blkdevparts={blkdevparts.text(table.partitions, table.device or '')}"
    return " ".join([*mem, *append.split(), *root, parts])


def cmmpool(memory: Memory) -> str:
    """``cmmpool=`` of ``ax_cmm.ko``. Raises ``InputError`` for a split that cannot be, or none."""
    split = split_rules.resolve(memory)
    if split is None:
        raise InputError("expected memory.linux or memory.cmm: this board has no CMM pool")
    return split.cmmpool


def value(text: str, key: str) -> str:
    """The value of ``key=`` in a command line. Raises ``InputError`` unless it stands there once."""
    found = [word.removeprefix(f"{key}=") for word in text.split() if word.startswith(f"{key}=")]
    if len(found) != 1:
        raise InputError(f"bootargs: expected one {key}=, found {len(found)}: {text[:160]!r}")
    return found[0]


def edited(text: str, values: Mapping[str, str]) -> str:
    """A command line with these values in place of its own, all its other words kept as they are.

    Raises ``InputError`` for a key that stands there twice; one that is missing is put at the end, ``mem``
    at the start.
    """
    words = text.split()
    for key, new in values.items():
        places = [index for index, word in enumerate(words) if word.startswith(f"{key}=")]
        if len(places) > 1:
            raise InputError(f"bootargs: expected one {key}=, found {len(places)}: {text[:160]!r}")
        if places:
            words[places[0]] = f"{key}={new}"
        else:
            words.insert(0 if key == "mem" else len(words), f"{key}={new}")
    return " ".join(words)


def values(table: Table, split: Split | None) -> dict[str, str]:
    """What :func:`edited` puts into the bootargs that a board has."""
    mem = {"mem": split.mem} if split else {}
    root = table.path(table.holding("rootfs"))
    return {**mem, "root": root, "blkdevparts": blkdevparts.text(table.partitions, table.device or "")}


def faults(board: Board) -> Iterator[LayoutError]:
    """What is wrong with ``boot.append`` of a board without a partition table."""
    if board.disk.table != "blkdevparts":
        return
    for word in board.boot.append.split():
        key = word.partition("=")[0]
        if key in MADE:
            yield LayoutError(
                ("boot", "append"),
                f"expected no {key}=, which is made from the layout, found {word!r}",
                hint="leave it out: memory.linux and partitions say it",
            )
        elif set(word) & set("'\"\\$;"):
            yield LayoutError(
                ("boot", "append"),
                f"expected no quotes, '$', ';' and backslashes in a word, found {word!r}",
                hint="U-Boot's shell would read them before the kernel does",
            )
    if partitions.faults(board.disk, board.partitions) or split_rules.faults(board.memory):
        return
    table = partitions.resolve(board.disk, board.partitions)
    text = compose(table, splits.of(board.memory), board.boot.append)
    if len(text) > TYPED_MOST:
        yield LayoutError(
            ("boot", "append"),
            f"the bootargs have {len(text)} characters, U-Boot's prompt takes {TYPED_MOST}",
            hint=f"{len(board.boot.append)} of them are boot.append; shorten it or names of partitions",
        )
