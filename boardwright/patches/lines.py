"""Source lines: which versions of a program the project has patches for, and where their sources come from.

A collection is a directory of ``patches/``: ``kernel``, or the source package of a ``meson`` recipe. Its
lines are those of the recipes whose locks name such a source. A line is the first two numbers of the
source's version; where several recipes share one, the first by name stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from boardwright.build.step import Download
from boardwright.errors import InputError
from boardwright.patches.series import line_of
from boardwright.schema.lock import Lock
from boardwright.schema.project import Project
from boardwright.schema.recipe import KernelRecipe, MesonRecipe, RecipeBase
from boardwright.schema.suggest import nearest

KERNEL = "kernel"


@dataclass(frozen=True, eq=False)
class Line:
    """A source line of a collection: the recipe that stands for it, and its lock."""

    collection: str
    name: str
    recipe: KernelRecipe | MesonRecipe
    lock: Lock

    @property
    def source(self) -> tuple[Download, ...]:
        """The files its pristine tree is made from."""
        package = self.recipe.source.debian
        return tuple(Download(f.path, f.size, f.sha256) for f in self.lock.files if f.package == package)

    @property
    def version(self) -> str:
        return next(f.version for f in self.lock.files if f.package == self.recipe.source.debian)

    def __str__(self) -> str:
        return f"{self.collection} {self.name}"


def collection_of(recipe: RecipeBase) -> str | None:
    """The directory of ``patches/`` whose topics a recipe may ask for."""
    if isinstance(recipe, KernelRecipe):
        return KERNEL
    return recipe.source.debian if isinstance(recipe, MesonRecipe) else None


def all_lines(project: Project) -> list[Line]:
    """Every line of the project, by collection, the newest first.

    A recipe that is wrong or was never locked adds none: other verbs say so.
    """
    found: dict[tuple[str, str], Line] = {}
    for name in project.recipes():
        try:
            recipe, lock = project.recipe(name), project.lock(name)
        except InputError:
            continue
        if not isinstance(recipe, KernelRecipe | MesonRecipe) or lock is None:
            continue
        collection = collection_of(recipe)
        version = next((f.version for f in lock.files if f.package == recipe.source.debian), None)
        if collection and version:
            line = line_of(version)
            found.setdefault((collection, line), Line(collection, line, recipe, lock))
    return sorted(found.values(), key=lambda line: (line.collection, tuple(-n for n in numbers(line.name))))


def lines(project: Project, collection: str) -> list[str]:
    """The names of a collection's lines, the newest first."""
    return [line.name for line in all_lines(project) if line.collection == collection]


def chosen(lines: Iterable[Line], name: str) -> list[Line]:
    """The lines called ``name``: of one collection as a rule; all for ''. Raises ``InputError``."""
    known = list(lines)
    found = [line for line in known if name in ("", line.name, f"{line.collection}-{line.name}")]
    if not found:
        names = [line.name for line in known]
        raise InputError(
            f"there is no source line {name!r}",
            hint=nearest(name, names) or f"lines are those of locked recipes: {', '.join(names)}",
        )
    return found


def numbers(line: str) -> tuple[int, ...]:
    """For order: 6.12 is newer than 6.1."""
    return tuple(int(number) for number in line.split("."))
