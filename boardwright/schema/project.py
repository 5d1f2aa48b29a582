"""The project's files, loaded when asked for and kept."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from boardwright.errors import InputError, Place
from boardwright.schema.board import Board, Local
from boardwright.schema.lock import Lock
from boardwright.schema.recipe import Recipe
from boardwright.schema.suggest import nearest
from boardwright.schema.units import Size


def _hook(kind: type, value: object) -> object:
    if kind is Size:
        return Size.parse(value)
    raise NotImplementedError(kind)


@dataclass(frozen=True)
class Project:
    root: Path

    def boards(self) -> list[str]:
        return sorted(path.parent.name for path in (self.root / "boards").glob("*/board.yaml"))

    def recipes(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "recipes").glob("*.yaml"))

    @functools.cache  # noqa: B019
    def board(self, name: str, variant: str | None = None) -> Board:
        if name not in self.boards():
            raise InputError(f"no board {name!r}", hint=nearest(name, self.boards()))
        board = self._load(f"boards/{name}/board.yaml", Board)
        if variant is None:
            return board
        if variant not in board.variants:
            raise InputError(f"board {name} has no variant {variant!r}", hint=nearest(variant, board.variants))
        chosen = board.variants[variant]
        kernel = board.kernel
        if chosen.kernel:
            kernel = msgspec.structs.replace(kernel, recipe=chosen.kernel, config=[], patches=[])
        boot = board.boot if chosen.loader else msgspec.structs.replace(board.boot, loader=None)
        return msgspec.structs.replace(board, kernel=kernel, boot=boot)

    @functools.cache  # noqa: B019
    def recipe(self, name: str) -> Recipe:
        if name not in self.recipes():
            raise InputError(f"no recipe {name!r}", hint=nearest(name, self.recipes()))
        return self._load(f"recipes/{name}.yaml", Recipe)

    @functools.cache  # noqa: B019
    def lock(self, name: str) -> Lock | None:
        path = self.root / "recipes" / f"{name}.lock.json"
        return msgspec.json.decode(path.read_bytes(), type=Lock) if path.exists() else None

    def local(self) -> Local:
        return self._load("local.yaml", Local) if (self.root / "local.yaml").exists() else Local()

    def _load(self, path, kind):
        try:
            return msgspec.convert(yaml.load((self.root / path).read_text(), yaml.CSafeLoader), kind, dec_hook=_hook)
        except msgspec.ValidationError as error:
            raise InputError(str(error), place=Place(path)) from error


def load_project(root: Path) -> Project:
    return Project(root)
