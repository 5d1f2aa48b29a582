"""The packages that recipes make: name, version and control fields, known before anything is built.

apt is told of them when the lock of a root file system is made (boardwright/verbs/lock.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from boardwright.errors import InputError, Place
from boardwright.kinds.context import Context
from boardwright.schema.lock import Lock
from boardwright.schema.recipe import MesonRecipe, ProjectRecipe, RecipeBase

Packaged = MesonRecipe | ProjectRecipe


def packaged(recipe: RecipeBase, asks: str) -> Packaged:
    """``recipe``, when it makes a package. Raises ``InputError`` at the recipe that ``asks`` for it."""
    if isinstance(recipe, Packaged) and recipe.deb is not None:
        return recipe
    raise InputError(
        f"expected a recipe of kind meson or project with a deb, found {recipe.recipe!r}",
        place=Place(f"recipes/{asks}.yaml"),
    )


def made(context: Context, names: Iterable[str]) -> list[tuple[str, str]]:
    """The recipes of ``names`` that make a .deb, each with the name of its file."""
    found: list[tuple[str, str]] = []
    for name in names:
        recipe = context.project.recipe(name)
        if isinstance(recipe, Packaged) and recipe.deb:
            found.append((name, file_name(recipe, context.lock(name))))
    return found


def source_version(recipe: MesonRecipe, lock: Lock) -> str:
    """Debian's version of the source. Raises ``InputError`` when the lock names none."""
    for file in lock.files:
        if file.architecture == "source":
            return file.version
    raise InputError(
        f"expected the files of source package {recipe.source.debian}, found none",
        place=Place(f"recipes/{recipe.recipe}.lock.json"),
        hint=f"run `invoke lock --recipe {recipe.recipe}`",
    )


def version(recipe: Packaged, lock: Lock) -> str:
    """Of our .deb: later than Debian's own build of the same source, earlier than its next revision."""
    own = recipe.version if isinstance(recipe, ProjectRecipe) else source_version(recipe, lock)
    return f"{own}+boardwright"


def file_name(recipe: Packaged, lock: Lock) -> str:
    """``<package>_<version>_arm64.deb``; a file name has no epoch."""
    assert recipe.deb is not None
    found = version(recipe, lock)
    return f"{recipe.deb.name}_{found.partition(':')[2] or found}_arm64.deb"


def control(recipe: Packaged, lock: Lock) -> str:
    """The control fields of the recipe's .deb (Debian Policy 5.3)."""
    deb = recipe.deb
    assert deb is not None
    replaced = ", ".join(deb.replaces)
    fields = {"Package": deb.name}
    if isinstance(recipe, MesonRecipe):
        theirs = source_version(recipe, lock)
        fields["Source"] = f"{recipe.source.debian} ({theirs})"
        provided = ", ".join(f"{name} (= {theirs})" for name in deb.replaces)
    else:
        provided = replaced
    fields |= {
        "Version": version(recipe, lock),
        "Architecture": "arm64",
        "Maintainer": "boardwright developers <boardwright@localhost>",
        "Section": "libs" if isinstance(recipe, MesonRecipe) else "science",
        "Priority": "optional",
        "Depends": ", ".join(deb.depends),
        "Provides": provided,
        "Conflicts": replaced,
        "Replaces": replaced,
        "Description": deb.description,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
