"""Source lines: which versions of a program the project has patches for, and where their sources come from.

A collection is a directory of ``patches/``: ``kernel``, or the source package of a ``meson`` recipe. Its
lines are those of the recipes whose locks name such a source.
"""

from __future__ import annotations

from boardwright.errors import InputError
from boardwright.patches.series import line_of
from boardwright.schema.project import Project
from boardwright.schema.recipe import KernelRecipe, MesonRecipe, RecipeBase

KERNEL = "kernel"


def collection_of(recipe: RecipeBase) -> str | None:
    """The directory of ``patches/`` whose topics a recipe may ask for."""
    if isinstance(recipe, KernelRecipe):
        return KERNEL
    return recipe.source.debian if isinstance(recipe, MesonRecipe) else None


def lines(project: Project, collection: str) -> list[str]:
    """The lines of a collection, the newest first. A recipe that is wrong or not locked adds none."""
    found: dict[str, None] = {}
    for name in project.recipes():
        try:
            recipe, lock = project.recipe(name), project.lock(name)
        except InputError:
            continue
        if collection_of(recipe) == collection and lock is not None:
            source = next((f for f in lock.files if f.package == recipe.source.debian), None)  # type: ignore[union-attr]
            if source is not None:
                found[line_of(source.version)] = None
    return sorted(found, key=numbers, reverse=True)


def numbers(line: str) -> tuple[int, ...]:
    """For order: 6.12 is newer than 6.1."""
    return tuple(int(number) for number in line.split("."))
