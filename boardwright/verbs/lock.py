"""``invoke lock``."""

from __future__ import annotations

from pathlib import Path

from boardwright.build.store import cache_directory
from boardwright.errors import InputError
from boardwright.schema.lock import has_lock
from boardwright.schema.project import Project, load_project
from boardwright.verbs.common import say


def lock(root: Path, only: str, dry_run: bool) -> int:
    """Resolve one recipe, or all that take something from a mirror; write the locks that changed."""
    from boardwright.build.lock import difference, resolve, write
    from boardwright.build.mirror import mirrors

    project = load_project(root)
    found = mirrors()
    for name in _names(project, only):
        source = root / "recipes" / f"{name}.yaml"
        old, new = project.lock(name), resolve(project.recipe(name), found, cache_directory(), file=source)
        changes = difference(old, new)
        path = root / "recipes" / f"{name}.lock.json"
        say(f"{name}: {len(new.files)} files, {len(changes)} changes" if changes else f"{name}: unchanged")
        for change in changes:
            print(f"  {change}")
        if not dry_run and old != new:
            write(new, path)
    return 0


def _names(project: Project, only: str) -> list[str]:
    if not only:
        return [name for name in project.recipes() if has_lock(project.recipe(name))]
    if not has_lock(project.recipe(only)):
        raise InputError(f"recipe {only} takes nothing from a mirror, so it has no lock")
    return [only]
