"""Kind ``project``: a meson project of this repository, cross-built for arm64 into a .deb."""

from __future__ import annotations

from boardwright.build.step import Input, Step, Text
from boardwright.kinds import debs
from boardwright.kinds.context import Context, downloads, script
from boardwright.schema.recipe import ProjectRecipe

LICENSE = "LICENSE"
"""What stands in the package as its copyright file."""


def step(context: Context, recipe: ProjectRecipe) -> Step:
    lock = context.lock(recipe.recipe)
    package = debs.file_name(recipe, lock)
    inputs: dict[str, Input] = {
        **downloads(lock.files, "sysroot"),
        **{f"repository/{part}": context.file(part) for part in recipe.parts},
        "copyright": context.file(LICENSE),
        "options": Text("".join(f"-D{name}={value}\n" for name, value in recipe.options.items())),
        "control": Text(debs.control(recipe, lock)),
    }
    return Step(
        name=recipe.recipe,
        title=f"{package} from {recipe.project}",
        script=script("project"),
        environment=recipe.environment,
        outputs=(package,),
        inputs=inputs,
        variables={"PROJECT": recipe.project, "BESIDE": " ".join(recipe.beside), "DEB": package},
        epoch=lock.epoch,
        sealed=("meson_cross.sh", "mesondeb.py"),
    )
