"""What a kind may look at when it turns a recipe into steps: the project's files and locks, by content."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from boardwright.build import digest
from boardwright.build.step import Download, LocalFile, Package, Rendered
from boardwright.errors import InputError, Place
from boardwright.schema.board import Board, Local
from boardwright.schema.lock import Lock, LockedFile, request_digest
from boardwright.schema.project import Project

KINDS = Path(__file__).parent


class Context(msgspec.Struct, frozen=True, dict=True):
    """One board of a project, with everything its kinds need. Reads files, changes nothing."""

    project: Project
    board: Board
    local: Local
    variant: str | None = None

    @property
    def root(self) -> Path:
        return self.project.root

    def lock(self, name: str) -> Lock:
        """The lock of a recipe. Raises ``InputError`` when it was never made, or for another request."""
        lock = self.project.lock(name)
        hint = f"run `invoke lock --recipe {name}`"
        if lock is None:
            raise InputError(f"recipe {name} has no lock", place=Place(f"recipes/{name}.yaml"), hint=hint)
        if lock.request != request_digest(self.project.recipe(name)):
            raise InputError(
                "the lock was made before the recipe asked for what it asks now",
                place=Place(f"recipes/{name}.lock.json"),
                hint=hint,
            )
        return lock

    def file(self, path: str) -> LocalFile:
        """A file or tree of the project. Raises ``InputError`` when it is not there."""
        existing = self._existing(path)
        if path not in self._digests:
            self._digests[path] = digest.of_tree(existing)
        return LocalFile(str(existing), self._digests[path])

    @functools.cached_property
    def _digests(self) -> dict[str, str]:
        """Of what two recipes read, worked out once."""
        return {}

    def rendered(self, path: str, variables: Mapping[str, Any]) -> Rendered:
        """A file or tree of the project whose templates are rendered with ``variables``."""
        text = json.dumps(variables, sort_keys=True)
        return Rendered(str(self._existing(path)), digest.of_tree(self.root / path), text)

    def _existing(self, path: str) -> Path:
        if not (self.root / path).exists():
            raise InputError("no such file or directory", place=Place(path))
        return self.root / path

    @functools.cached_property
    def identity(self) -> str:
        """Digest from which the identifiers of the image derive: the board and every lock of its recipes."""
        locks = {name: digest.of_file(path) for name, path in self._locks_used()}
        return digest.of_json({"board": self.board.board, "variant": self.variant, "locks": locks})

    def _locks_used(self) -> list[tuple[str, Path]]:
        names = {self.board.kernel.recipe, self.board.rootfs.recipe}
        if self.board.boot.loader:
            names.add(self.board.boot.loader)
        return [(name, self.root / "recipes" / f"{name}.lock.json") for name in sorted(names)]


def script(kind: str) -> str:
    """The script of a kind: ``boardwright/kinds/<kind>.sh``."""
    return (KINDS / f"{kind}.sh").read_text()


def packages(lock: Lock) -> tuple[Package, ...]:
    """The files of a lock as the packages of a root."""
    return tuple(Package(f.package, f.version, f.architecture, f.path, f.size, f.sha256) for f in lock.files)


def downloads(files: Iterable[LockedFile], directory: str) -> dict[str, Download]:
    """Files of a lock as inputs ``<directory>/<file name>``."""
    return {f"{directory}/{Path(file.path).name}": download(file) for file in files}


def download(file: LockedFile) -> Download:
    return Download(file.path, file.size, file.sha256)
