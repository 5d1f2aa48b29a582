"""Kind ``environment``: a locked Debian root in which steps run."""

from __future__ import annotations

from boardwright.build.step import RootStep
from boardwright.kinds.context import Context, packages
from boardwright.schema.recipe import EnvironmentRecipe


def step(context: Context, recipe: EnvironmentRecipe) -> RootStep:
    lock = context.lock(recipe.recipe)
    return RootStep(
        name=recipe.recipe,
        title=f"environment of {len(lock.files)} Debian packages",
        architecture=recipe.architecture,
        packages=packages(lock),
        output="root",
        epoch=lock.epoch,
        options=tuple(recipe.options),
    )
