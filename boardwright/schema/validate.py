"""Every mistake in a project's files, for ``invoke check``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec

from boardwright.errors import InputError, InputErrors, Place
from boardwright.layout import bootargs, memory, partitions, split_rules
from boardwright.layout.presets import PRESETS
from boardwright.schema.board import Board
from boardwright.schema.project import LOCAL, Project, board_file
from boardwright.schema.references import (
    board_faults,
    recipe_faults,
    recipes_of,
    vendor_faults,
    with_environments,
)
from boardwright.schema.suggest import nearest
from boardwright.schema.yamltree import Document

P = ParamSpec("P")
Key = tuple[str, int, int, str]


def validate(project: Project, board: str | None = None) -> list[InputError]:
    """Mistakes in all files of the project, or in those that ``board`` uses, in the order of their places."""
    found: list[InputError] = []
    used = set(project.recipes()) if board is None else set[str]()
    _collect(found, _local_faults, project)
    for name in project.boards() if board is None else [board]:
        if _collect(found, _board_faults, project, name):
            used |= {recipe for recipe, _, _ in recipes_of(project.board(name))}
    for name in with_environments(project, used):
        _collect(found, recipe_faults, project, name)
    return [error for _, error in sorted({_key(error): error for error in found}.items())]


def errors_as_json(errors: Iterable[InputError]) -> list[dict[str, Any]]:
    """What ``invoke check --json`` prints; lines and columns count from 1, 0 is the whole file."""
    rows = []
    for error in errors:
        place = error.place or Place("")
        rows.append(
            {
                "file": place.file,
                "line": place.line,
                "column": place.column,
                "message": error.message,
                "hint": error.hint,
            }
        )
    return rows


def _collect(
    found: list[InputError], faults: Callable[P, Iterator[InputError]], *args: P.args, **more: P.kwargs
) -> bool:
    """Add what ``faults`` yields or raises; whether it could look at everything."""
    try:
        found.extend(faults(*args, **more))
    except InputErrors as several:
        found.extend(several.errors)
    except InputError as error:
        found.append(error)
    else:
        return True
    return False


def _key(error: InputError) -> Key:
    place = error.place or Place("")
    return place.file, place.line, place.column, error.message


def _local_faults(project: Project) -> Iterator[InputError]:
    local = project.local()
    if local.vendor:
        yield from vendor_faults(project, project.document(LOCAL), local.vendor, set())


def _board_faults(project: Project, name: str) -> Iterator[InputError]:
    board = project.board(name)
    document = project.document(board_file(name))
    yield from layout_faults(board, document)
    yield from board_faults(project, board)
    yield from vendor_faults(project, document, board.vendor, _supplied(project, board))


def _supplied(project: Project, board: Board) -> set[str]:
    """Names of vendor files that ``local.yaml`` supplies: all, when it is wrong and cannot say."""
    try:
        return set(project.local().vendor)
    except InputError:
        return set(board.vendor)


def layout_faults(board: Board, document: Document) -> Iterator[InputError]:
    """Partitions and memory that cannot be, at the values that say so."""
    layout = partitions.faults(board.disk, board.partitions)
    split = split_rules.faults(board.memory)
    for error in [*layout, *memory.faults(board.memory), *split, *bootargs.faults(board)]:
        yield InputError(error.message, place=document.place(error.path), hint=error.hint)
    if board.disk.shipped is not None and board.disk.shipped not in PRESETS:
        yield InputError(
            f"there is no shipped layout {board.disk.shipped!r}",
            place=document.place(("disk", "shipped")),
            hint=nearest(board.disk.shipped, PRESETS) or f"there are: {', '.join(PRESETS)}",
        )
