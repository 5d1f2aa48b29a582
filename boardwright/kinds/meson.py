"""Kind ``meson``: a program of Debian's source package, patched, cross-built for arm64, perhaps as a .deb."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from boardwright.build.step import Input, Step, Text
from boardwright.errors import InputError, Place
from boardwright.kinds.context import Context, downloads, script
from boardwright.patches.staged import staged
from boardwright.schema.lock import Lock
from boardwright.schema.recipe import DebianPackage, MesonRecipe

TREE = "tree.tar"
"""Everything that was installed, with symbol tables."""


def step(context: Context, recipe: MesonRecipe, without: Collection[str] = ()) -> Step:
    """The step of a recipe; ``without`` some of its topics it makes no .deb and has a name of its own."""
    lock = context.lock(recipe.recipe)
    name = "-without-".join([recipe.recipe, *without])
    deb = None if without else recipe.deb
    topics = [topic for topic in recipe.patches if topic not in without]
    source = [file for file in lock.files if file.architecture == "source"]
    version = source_version(recipe, lock)
    patches = staged(context, recipe.source.debian, topics, version)
    inputs: dict[str, Input] = {
        **downloads(source, "source"),
        **downloads((file for file in lock.files if file not in source), "sysroot"),
        **patches.inputs,
        "options": Text("".join(f"-D{name}={value}\n" for name, value in recipe.options.items())),
    }
    if deb:
        inputs["control"] = Text(control(recipe, lock))
    return Step(
        name=name,
        title=f"{recipe.source.debian} {version} for arm64, {patches.title}",
        script=script("meson"),
        environment=recipe.environment,
        outputs=(TREE, deb_name(deb, version)) if deb else (TREE,),
        inputs=inputs,
        variables={
            "PATCHES": " ".join(patches.topics),
            "BESIDE": " ".join(recipe.beside),
            "DEB": deb_name(deb, version) if deb else "",
        },
        epoch=lock.epoch,
        sealed=("debian_source.sh", "meson_setup.sh", "mesondeb.py", "patchtree.py"),
        kept_tree=name,
        ccache=True,
    )


def debs(context: Context, names: Iterable[str]) -> list[tuple[str, str]]:
    """The recipes of ``names`` that make a .deb, each with the name of its file."""
    found: list[tuple[str, str]] = []
    for name in names:
        recipe = context.project.recipe(name)
        if isinstance(recipe, MesonRecipe) and recipe.deb:
            found.append((name, deb_name(recipe.deb, source_version(recipe, context.lock(name)))))
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


def package_version(version: str) -> str:
    """Of our .deb: later than Debian's own build of the same source, earlier than its next revision."""
    return f"{version}+boardwright"


def deb_name(deb: DebianPackage, version: str) -> str:
    """``<package>_<version>_arm64.deb``; a file name has no epoch."""
    return f"{deb.name}_{package_version(version).partition(':')[2] or package_version(version)}_arm64.deb"


def control(recipe: MesonRecipe, lock: Lock) -> str:
    """The control fields of the recipe's .deb (Debian Policy 5.3), known before anything is built."""
    deb = recipe.deb
    assert deb is not None
    version = source_version(recipe, lock)
    replaced = ", ".join(deb.replaces)
    fields = {
        "Package": deb.name,
        "Source": f"{recipe.source.debian} ({version})",
        "Version": package_version(version),
        "Architecture": "arm64",
        "Maintainer": "boardwright developers <boardwright@localhost>",
        "Section": "libs",
        "Priority": "optional",
        "Depends": ", ".join(deb.depends),
        "Provides": ", ".join(f"{name} (= {version})" for name in deb.replaces),
        "Conflicts": replaced,
        "Replaces": replaced,
        "Description": deb.description,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
