"""The project's files, loaded when asked for and kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from boardwright.errors import InputError, Place
from boardwright.schema.board import Board, Local
from boardwright.schema.convert import convert, mistakes
from boardwright.schema.lock import Lock
from boardwright.schema.recipe import Recipe, RecipeBase, RootfsRecipe
from boardwright.schema.suggest import nearest
from boardwright.schema.yamltree import Document, parse, place_of, raise_all

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Project:
    """The files below ``root``. Every method raises ``InputError`` for a file that is wrong."""

    root: Path
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def boards(self) -> list[str]:
        return self._once("boards", lambda: _names(self.root.glob("boards/*/board.yaml"), 1))

    def recipes(self) -> list[str]:
        return self._once("recipes", lambda: _names(self.root.glob("recipes/*.yaml"), 0))

    def board(self, name: str, variant: str | None = None) -> Board:
        """A board as its file describes it, with the changes of ``variant``."""
        return self._once(("board", name, variant), lambda: self._board(name, variant))

    def recipe(self, name: str) -> Recipe:
        return self._once(("recipe", name), lambda: self._recipe(name))

    def lock(self, name: str) -> Lock | None:
        """The lock of a recipe; None when it was never made."""
        return self._once(("lock", name), lambda: self._lock(name))

    def local(self) -> Local:
        """What is the user's alone; defaults when there is no ``local.yaml``."""
        there = (self.root / LOCAL).exists()
        return self._once(LOCAL, lambda: convert(self.document(LOCAL), Local) if there else Local())

    def document(self, file: str) -> Document:
        """A file of the project with the places of its values; ``file`` is relative to ``root``.

        Locks too, for errors: slowly, and as the YAML that JSON nearly always is.
        """
        return self._once(("document", file), lambda: parse(_read(self.root / file, file), file))

    def _board(self, name: str, variant: str | None) -> Board:
        if variant is not None:
            return with_variant(self.board(name), variant)
        if name not in self.boards():
            known = f"known boards: {', '.join(self.boards())}"
            raise InputError(f"there is no board {name!r}", hint=nearest(name, self.boards()) or known)
        document = self.document(board_file(name))
        board = convert(document, Board)
        _same_name(document, "board", board.board, name, "its directory")
        return board

    def _recipe(self, name: str) -> Recipe:
        if name not in self.recipes():
            raise InputError(f"there is no recipe {name!r}", hint=nearest(name, self.recipes()))
        document = self.document(recipe_file(name))
        recipe = convert(document, cast("type[RecipeBase]", Recipe))
        _same_name(document, "recipe", recipe.recipe, name, "its file")
        if isinstance(recipe, RootfsRecipe) and recipe.extends:
            return self._extended(recipe, document)
        return cast(Recipe, recipe)

    def _extended(self, recipe: RootfsRecipe, document: Document) -> RootfsRecipe:
        """The recipe with what it has from the one it extends; its own come first."""
        place = document.place(("extends",))
        if recipe.extends == recipe.recipe or recipe.extends not in self.recipes():
            others = [name for name in self.recipes() if name != recipe.recipe]
            raise InputError(
                f"expected another recipe of kind rootfs, found {recipe.extends!r}",
                place=place,
                hint=nearest(recipe.extends or "", others),
            )
        base = convert(self.document(recipe_file(recipe.extends)), cast("type[RecipeBase]", Recipe))
        if not isinstance(base, RootfsRecipe) or base.extends:
            kind = base.__struct_config__.tag
            found = f"{recipe.extends!r} of kind {kind}" + (
                ", which extends another" if kind == "rootfs" else ""
            )
            raise InputError(
                f"expected a recipe of kind rootfs that extends no other, found {found}", place=place
            )
        if base.suite != recipe.suite:
            raise InputError(
                f"expected suite {base.suite}, as {recipe.extends} has, found {recipe.suite}",
                place=document.place(("suite",)),
            )
        return msgspec.structs.replace(
            recipe,
            packages=[*recipe.packages, *(name for name in base.packages if name not in recipe.packages)],
            options=[*base.options, *recipe.options],
            exclude=[*base.exclude, *recipe.exclude],
            built=[*recipe.built, *base.built],
        )

    def _lock(self, name: str) -> Lock | None:
        path, file = self.root / lock_file(name), lock_file(name)
        if not path.exists():
            return None
        data = _read(path, file)
        try:
            lock = _LOCKS.decode(data)
        except msgspec.ValidationError as error:
            raise_all(mistakes(self.document(file), Lock))
            raise InputError(str(error), place=Place(file)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _not_json(error, data, file, name) from None
        if lock.recipe != name:
            _same_name(self.document(file), "recipe", lock.recipe, name, "its file")
        return lock

    def _once(self, what: Hashable, load: Callable[[], T]) -> T:
        if what not in self._kept:
            self._kept[what] = load()
        return cast(T, self._kept[what])


LOCAL = "local.yaml"
_LOCKS = msgspec.json.Decoder(Lock)


def board_file(name: str) -> str:
    return f"boards/{name}/board.yaml"


def recipe_file(name: str) -> str:
    return f"recipes/{name}.yaml"


def lock_file(name: str) -> str:
    return f"recipes/{name}.lock.json"


def load_project(root: Path) -> Project:
    """The project in directory ``root``; reads nothing yet."""
    return Project(root)


def with_variant(board: Board, variant: str) -> Board:
    """A board with the changes of one of its variants. Raises ``InputError`` for an unknown one."""
    if variant not in board.variants:
        known = f"variants: {', '.join(board.variants)}" if board.variants else "it has none"
        raise InputError(
            f"board {board.board} has no variant {variant!r}",
            place=Place(board_file(board.board)),
            hint=nearest(variant, board.variants) or known,
        )
    chosen, kernel, boot = board.variants[variant], board.kernel, board.boot
    if chosen.kernel:
        kernel = msgspec.structs.replace(kernel, recipe=chosen.kernel, config=[], patches=[])
    if not chosen.loader:
        boot = msgspec.structs.replace(boot, loader=None)
    append = f"{boot.append} {chosen.append}".strip()
    boot = msgspec.structs.replace(boot, append=append, overlays=[*boot.overlays, *chosen.overlays])
    rootfs = msgspec.structs.replace(board.rootfs, recipe=chosen.rootfs or board.rootfs.recipe)
    return msgspec.structs.replace(board, kernel=kernel, boot=boot, rootfs=rootfs)


def _names(paths: Any, up: int) -> list[str]:
    return sorted(path.parent.name if up else path.stem for path in paths)


def _same_name(document: Document, key: str, found: str, expected: str, whose: str) -> None:
    if found != expected:
        raise InputError(
            f"expected {expected!r}, the name of {whose}, found {found!r}", place=document.place((key,))
        )


def _read(path: Path, file: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(file)) from None


def _not_json(error: Exception, data: bytes, file: str, name: str) -> InputError:
    """A lock that is no JSON, at the byte where that shows."""
    match = re.search(r"\(byte (\d+)\)", str(error))
    position = int(match[1]) if match else getattr(error, "start", len(data))
    place = place_of(data[:position].decode("utf-8", "replace"), position, file)
    text = re.sub(r"^JSON is malformed: | \(byte \d+\)", "", str(error))
    return InputError(f"not JSON: {text}", place=place, hint=f"run `invoke lock --recipe {name}`")
