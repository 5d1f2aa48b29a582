"""Kind ``rootfs``: Debian packages, then kernel modules, overlays and the user's settings, as one tarball."""

from __future__ import annotations

import json

from boardwright.build.step import Built, Input, Output, RootStep, Step, Text
from boardwright.image.names import has_no_table
from boardwright.kinds import debs, models
from boardwright.kinds.context import Context, packages, script
from boardwright.schema.recipe import RootfsRecipe


def steps(context: Context, recipe: RootfsRecipe, kernel: str) -> list[RootStep | Step]:
    """The root as mmdebstrap makes it, and the finished tarball with the modules of step ``kernel``."""
    lock = context.lock(recipe.recipe)
    base = RootStep(
        name=f"{recipe.recipe}-base",
        title=f"Debian {recipe.suite} {recipe.architecture} from {len(lock.files)} packages",
        architecture=recipe.architecture,
        packages=packages(lock),
        output="root.tar",
        epoch=lock.epoch,
        options=tuple(recipe.options),
        built=tuple(_built(context, name) for name in recipe.built),
    )
    return [base, _finished(context, recipe, base.name, kernel, lock.epoch)]


def _built(context: Context, name: str) -> Built:
    """The package that recipe ``name`` makes. Raises ``InputError`` when it makes none."""
    recipe = debs.packaged(context.project.recipe(name), asks=context.board.rootfs.recipe)
    assert recipe.deb is not None
    lock = context.lock(name)
    made = Output(name, debs.file_name(recipe, lock))
    return Built(recipe.deb.name, debs.version(recipe, lock), "arm64", made)


def _finished(context: Context, recipe: RootfsRecipe, base: str, kernel: str, epoch: int) -> Step:
    overlays = context.board.rootfs.overlays
    variables = _variables(context)
    inputs: dict[str, Input] = {
        "base/root.tar": Output(base, "root.tar"),
        "modules.tar": Output(kernel, "modules.tar"),
        "settings.json": Text(json.dumps(_settings(context, recipe), sort_keys=True)),
    }
    inputs |= models.inputs(context)
    for name in overlays:
        inputs[f"overlays/{name}"] = context.rendered(f"overlays/rootfs/{name}", variables)
    return Step(
        name=recipe.recipe,
        title=f"root file system with overlays {', '.join(overlays)}",
        script=script("rootfs"),
        environment=recipe.environment,
        outputs=("rootfs.tar", "packages.json"),
        inputs=inputs,
        variables={"OVERLAYS": " ".join(overlays)},
        epoch=epoch,
        sealed=("rootfs.py", "tartree.py"),
    )


def _settings(context: Context, recipe: RootfsRecipe) -> dict[str, object]:
    local = context.local
    return {
        "authorized_keys": local.ssh_authorized_keys,
        "root_password_hash": local.root_password_hash,
        "hostname": local.hostname or context.board.board,
        "exclude": recipe.exclude,
    }


def _variables(context: Context) -> dict[str, object]:
    """What templates in ``overlays/rootfs`` may use."""
    board = context.board
    return {
        "board": board.board,
        "description": board.description,
        "hostname": context.local.hostname or board.board,
        "console_device": board.console.device,
        "console_baud": board.console.baud,
        "modules_load": board.rootfs.modules_load,
        "autologin": context.local.root_password_hash is None,
        **_disk_words(context),
    }


def _disk_words(context: Context) -> dict[str, object]:
    """Of a disk without a table, whose partitions the root itself must name."""
    if not has_no_table(context.board):
        return {}
    from boardwright.kinds import emmc

    return emmc.root_words(context)
