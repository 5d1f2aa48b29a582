"""What several verbs start with: the project, the board asked for, its plan, the store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build.plan import Plan, make
from boardwright.errors import InputError
from boardwright.kinds.context import Context
from boardwright.schema.project import Project, load_project

if TYPE_CHECKING:
    from boardwright.build.store import Store


@dataclass(frozen=True, slots=True)
class Request:
    """A board of the project, ready to plan."""

    context: Context

    @property
    def project(self) -> Project:
        return self.context.project

    @property
    def variant(self) -> str | None:
        return self.context.variant

    @property
    def board_name(self) -> str:
        return self.context.board.board

    @property
    def out(self) -> Path:
        """``out/<board>/``, or ``out/<board>-<variant>/``."""
        name = f"{self.board_name}-{self.variant}" if self.variant else self.board_name
        return self.project.root / "out" / name

    def plan(self, *targets: str) -> Plan:
        """The steps for ``targets``, by default for everything that is published."""
        from boardwright.kinds.board import image_targets, steps

        return make(steps(self.context, targets), targets or image_targets(self.context))


def request(root: Path, board: str, variant: str) -> Request:
    """Load what a verb's ``--board`` and ``--variant`` name. Raises ``InputError``."""
    project = load_project(root)
    name = board or _only_board(project)
    found = project.board(name, variant or None)
    return Request(Context(project, found, project.local(), variant or None))


def _only_board(project: Project) -> str:
    boards = project.boards()
    if len(boards) == 1:
        return boards[0]
    if not boards:
        raise InputError("there is no board", hint="boards/<name>/board.yaml makes one: docs/board-file.md")
    raise InputError("which board? there are several", hint=f"add --board {' or --board '.join(boards)}")


def open_store() -> Store:
    """The user's store, whose remarks go to stderr."""
    from boardwright.build.store import Store, cache_directory

    return Store(cache_directory() / "store", note=say)


def say(text: str) -> None:
    """A line for the user, on stderr."""
    print(text, file=sys.stderr, flush=True)
