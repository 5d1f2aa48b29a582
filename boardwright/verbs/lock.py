"""``invoke lock``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from boardwright.build.store import cache_directory
from boardwright.errors import InputError
from boardwright.schema.lock import Lock, has_lock
from boardwright.schema.project import Project, load_project
from boardwright.schema.recipe import Recipe
from boardwright.verbs.common import say


def lock(root: Path, only: str, dry_run: bool) -> int:
    """Resolve one recipe, or all that take something from a mirror; write the locks that changed."""
    from boardwright.build.lock import difference, resolve, write
    from boardwright.build.mirror import mirrors

    project = load_project(root)
    found = mirrors()
    made: dict[str, Lock] = {}
    for name in _names(project, only):
        source = root / "recipes" / f"{name}.yaml"
        recipe, old = project.recipe(name), project.lock(name)
        built = _built(project, recipe, made)
        made[name] = new = resolve(recipe, found, cache_directory(), file=source, built=built)
        changes = difference(old, new)
        path = root / "recipes" / f"{name}.lock.json"
        say(f"{name}: {len(new.files)} files, {len(changes)} changes" if changes else f"{name}: unchanged")
        for change in changes:
            print(f"  {change}")
        if not dry_run and old != new:
            write(new, path)
    return 0


def _built(project: Project, recipe: Recipe, made: Mapping[str, Lock]) -> dict[str, str]:
    """The packages a root file system gets from builds, each with its control fields."""
    from boardwright.kinds.debs import control, packaged

    found: dict[str, str] = {}
    for name in getattr(recipe, "built", ()):
        other = packaged(project.recipe(name), asks=recipe.recipe)
        lock = made.get(name) or project.lock(name)
        if lock is None:
            raise InputError(f"recipe {name} has no lock", hint=f"run `invoke lock --recipe {name}` first")
        assert other.deb is not None
        found[other.deb.name] = control(other, lock)
    return found


def _names(project: Project, only: str) -> list[str]:
    """The recipes with locks, those that install packages of others after them."""
    if not only:
        names = [name for name in project.recipes() if has_lock(project.recipe(name))]
        return sorted(names, key=lambda name: bool(getattr(project.recipe(name), "built", ())))
    if not has_lock(project.recipe(only)):
        raise InputError(f"recipe {only} takes nothing from a mirror, so it has no lock")
    return [only]
