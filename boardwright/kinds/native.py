"""Kind ``native``: our own C code for the board, as one tarball for a lab disk (docs/align-hunt.md)."""

from __future__ import annotations

from pathlib import PurePosixPath

from boardwright.build.step import Input, Step
from boardwright.kinds.context import Context, script
from boardwright.schema.recipe import NativeRecipe


def tarball(recipe: NativeRecipe) -> str:
    """The name of the output."""
    return f"{recipe.recipe}.tar"


def step(context: Context, recipe: NativeRecipe) -> Step:
    inputs: dict[str, Input] = {}
    for path in recipe.shared_libraries:
        inputs[f"libraries/{PurePosixPath(path).name}"] = context.file(path)
    for path in recipe.programs:
        inputs[f"programs/{PurePosixPath(path).name}"] = context.file(path)
    for path in recipe.patches:
        inputs[f"patches/{PurePosixPath(path).name}"] = context.file(path)
    return Step(
        name=recipe.recipe,
        title=f"{len(recipe.shared_libraries)} libraries and {len(recipe.programs)} programs for arm64",
        script=script("native"),
        environment=recipe.environment,
        outputs=(tarball(recipe),),
        inputs=inputs,
        variables={"TARBALL": tarball(recipe), "CREATED": " ".join(recipe.created)},
        sealed=("newfiles.py",),
    )
