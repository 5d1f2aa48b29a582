"""Kind ``meson``: a program of Debian's source package, patched, cross-built for arm64, perhaps as a .deb."""

from __future__ import annotations

from collections.abc import Collection

from boardwright.build.step import Input, Step, Text
from boardwright.kinds import debs
from boardwright.kinds.context import Context, downloads, script
from boardwright.patches.staged import staged
from boardwright.schema.recipe import MesonRecipe

TREE = "tree.tar"
"""Everything that was installed, with symbol tables."""


def step(context: Context, recipe: MesonRecipe, without: Collection[str] = ()) -> Step:
    """The step of a recipe; ``without`` some of its topics it makes no .deb and has a name of its own."""
    lock = context.lock(recipe.recipe)
    name = "-without-".join([recipe.recipe, *without])
    deb = None if without else recipe.deb
    package = debs.file_name(recipe, lock) if deb else ""
    topics = [topic for topic in recipe.patches if topic not in without]
    source = [file for file in lock.files if file.architecture == "source"]
    version = debs.source_version(recipe, lock)
    patches = staged(context, recipe.source.debian, topics, version)
    inputs: dict[str, Input] = {
        **downloads(source, "source"),
        **downloads((file for file in lock.files if file not in source), "sysroot"),
        **patches.inputs,
        "options": Text("".join(f"-D{name}={value}\n" for name, value in recipe.options.items())),
    }
    if deb:
        inputs["control"] = Text(debs.control(recipe, lock))
    return Step(
        name=name,
        title=f"{recipe.source.debian} {version} for arm64, {patches.title}",
        script=script("meson"),
        environment=recipe.environment,
        outputs=(TREE, package) if deb else (TREE,),
        inputs=inputs,
        variables={
            "PATCHES": " ".join(patches.topics),
            "BESIDE": " ".join(recipe.beside),
            "DEB": package,
        },
        epoch=lock.epoch,
        sealed=("debian_source.sh", "meson_cross.sh", "meson_setup.sh", "mesondeb.py", "patchtree.py"),
        kept_tree=name,
        ccache=True,
    )
