"""``invoke layout``: what a board's disk and memory look like, and what they looked like before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from boardwright.errors import InputError, Place
from boardwright.layout import consumers, drawing, maps, memory, partitions
from boardwright.schema.board import Board
from boardwright.schema.project import Project, board_file
from boardwright.schema.validate import layout_faults
from boardwright.schema.yamltree import raise_all
from boardwright.verbs.common import request

MOST = 2**20
"""Bytes of a command line or a script; both have some kilobytes."""


def layout(
    root: Path, board: str, variant: str, as_json: bool, cmdline: str = "", load_script: str = ""
) -> int:
    """Draw partitions and memory. ``cmdline``, ``load_script``: files copied from the board itself."""
    context = request(root, board, variant).context
    found = context.board
    _check(context.project, found)
    if load_script and not cmdline:
        raise InputError("expected --cmdline with --load-script, found none")
    if cmdline and found.disk.table != "blkdevparts":
        raise InputError(
            f"expected no --cmdline: {found.board} has a partition table of its own", hint="leave it out"
        )
    after = maps.planned(found)
    before = _running(found, cmdline, load_script) if cmdline else maps.shipped(found)
    if as_json:
        print(json.dumps(_json(found, before, after), indent=2))
    elif found.disk.table == "gpt":
        print(drawing.draw(partitions.resolve(found.disk, found.partitions)))
        print(memory.drawing(found.memory))
    else:
        print(drawing.compare(before, after))
        print("\n".join(["", *_words(found)]))
    return 0


def _check(project: Project, board: Board) -> None:
    """Everything wrong with the layout, at the lines that say so."""
    raise_all(list(layout_faults(board, project.document(board_file(board.board)))))


def _running(board: Board, cmdline: str, load_script: str) -> maps.Layout:
    script = _read(load_script) if load_script else None
    try:
        return maps.running(board, _read(cmdline), script, load_script)
    except InputError as error:
        raise InputError(error.message, place=error.place or Place(cmdline, 1), hint=error.hint) from None


def _read(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MOST + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(name)) from None
    if len(data) > MOST:
        raise InputError(f"expected {MOST} bytes at most, found more", place=Place(name))
    return data.decode("utf-8", "replace").rstrip("\0\n")


def _words(board: Board) -> list[str]:
    """What has to be written where."""
    made = consumers.derive(board)
    lines = [f"bootargs  {made.bootargs}"]
    if made.load_script:
        lines.append(f"script    {made.load_script.rstrip()}")
    return lines


def _json(board: Board, before: maps.Layout | None, after: maps.Layout) -> dict[str, Any]:
    value: dict[str, Any] = {
        "board": board.board,
        "table": board.disk.table,
        "before": maps.as_json(before),
        "after": maps.as_json(after),
    }
    if board.memory.cma:
        value["cma"] = memory.cma_argument(board.memory.cma)
    if board.disk.table == "blkdevparts":
        made = consumers.derive(board)
        value["consumers"] = {
            "bootargs": made.bootargs,
            "fstab": made.fstab,
            "fw_env": made.fw_env,
            "updates": made.updates,
            "load_script": made.load_script,
        }
    return value
