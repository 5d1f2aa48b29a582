"""All the steps of a board: which recipe's step feeds which."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from boardwright.build.step import AnyStep, Step
from boardwright.errors import InputError, Place
from boardwright.image.names import has_no_table
from boardwright.kinds import debs, environment, image, kernel, loader, meson, native, project, rootfs
from boardwright.kinds.context import Context
from boardwright.schema import recipe as recipes

R = TypeVar("R", bound=recipes.RecipeBase)

QEMU_ENVIRONMENT = "tools-qemu"
ASIDE = {QEMU_ENVIRONMENT, "tools-compare"}
"""Environments that no step of an image runs in."""
ALIGNED = "aligned-access"
"""The topic of Mesa whose effect is shown by a build without it."""


def steps(context: Context, beside: Collection[str] = ()) -> list[AnyStep]:
    """Every step that the board's image can need, and those of ``beside`` that no image has in it:
    environments, our own code for labs, and Mesa with and without its patches."""
    board = context.board
    kernel_step = _kernel(context, board.kernel.recipe)
    if has_no_table(board):
        found = _emmc(context, kernel_step)
        return [*_environments(context, found, _asked(context, beside) | {QEMU_ENVIRONMENT}), *found]
    overlays = loader.overlays_step(
        context, _recipe(context, "overlays", recipes.OverlaysRecipe), kernel_step.name
    )
    root_recipe = _recipe(context, board.rootfs.recipe, recipes.RootfsRecipe)
    root_base, root = rootfs.steps(context, root_recipe, kernel_step.name)
    made: list[AnyStep] = [kernel_step, overlays, root_base, root]
    made += [_package(context, name, root_recipe.recipe) for name in root_recipe.built]
    loader_name = board.boot.loader
    if loader_name:
        made.append(loader.step(context, _recipe(context, loader_name, recipes.LoaderRecipe)))
    made += image.steps(
        context,
        _recipe(context, "image", recipes.ImageRecipe),
        image.Parts(kernel_step.name, root.name, overlays.name, loader_name),
    )
    made += _lab(context, set(beside) - {step.name for step in made})
    return [*_environments(context, made, _asked(context, beside)), *made]


def _emmc(context: Context, kernel_step: AnyStep) -> list[AnyStep]:
    """The steps of a board whose disk has no partition table."""
    from boardwright.kinds import (
        emmc,  # what such a board takes is much to import, and others take none of it
    )

    root_recipe = _recipe(context, context.board.rootfs.recipe, recipes.RootfsRecipe)
    root_base, root = rootfs.steps(context, root_recipe, kernel_step.name)
    standins = emmc.standin(context)
    made: list[AnyStep] = [kernel_step, root_base, root, *standins]
    made += [_package(context, name, root_recipe.recipe) for name in root_recipe.built]
    sources = emmc.Sources(kernel_step.name, root.name, standins[-1].name)
    return made + list(emmc.steps(context, _recipe(context, "image", recipes.ImageRecipe), sources))


def _lab(context: Context, wanted: set[str]) -> list[AnyStep]:
    """What ``invoke align-hunt`` runs: a Mesa without the topic shows what the topic is for."""
    made: list[AnyStep] = []
    for step_name in sorted(wanted):
        name, _, without = step_name.partition("-without-")
        if name not in context.project.recipes():
            continue
        found = context.project.recipe(name)
        if isinstance(found, recipes.NativeRecipe) and not without:
            made.append(native.step(context, found))
        if isinstance(found, recipes.MesonRecipe) and without in ("", ALIGNED):
            made.append(meson.step(context, found, without=(without,) if without else ()))
        if isinstance(found, recipes.ProjectRecipe) and not without:
            made.append(project.step(context, found))
    return made


def _asked(context: Context, beside: Collection[str]) -> set[str]:
    """The environments to have besides those that steps run in."""
    known = set(context.project.recipes())
    return (ASIDE if beside else set()) | {
        name
        for name in set(beside) & known
        if isinstance(context.project.recipe(name), recipes.EnvironmentRecipe)
    }


def image_targets(context: Context) -> tuple[str, ...]:
    """The steps whose outputs ``invoke build`` publishes."""
    loader_name = context.board.boot.loader
    root = _recipe(context, context.board.rootfs.recipe, recipes.RootfsRecipe)
    if has_no_table(context.board):
        from boardwright.kinds import emmc

        return (emmc.DISK, emmc.PARTS, context.board.kernel.recipe, root.recipe, *root.built)
    found = ("image", "image-zst", context.board.kernel.recipe, root.recipe, "overlays", *root.built)
    return (*found, loader_name) if loader_name else found


def _kernel(context: Context, name: str) -> AnyStep:
    found = context.project.recipe(name)
    if isinstance(found, recipes.KernelRecipe):
        return kernel.step(context, found)
    if isinstance(found, recipes.DebianKernelRecipe):
        return kernel.debian_step(context, found)
    raise InputError(
        f"expected a recipe of kind kernel or debian-kernel, found {name!r}",
        place=Place(f"boards/{context.board.board}/board.yaml"),
    )


def _package(context: Context, name: str, asks: str) -> Step:
    found = debs.packaged(context.project.recipe(name), asks)
    return (
        meson.step(context, found) if isinstance(found, recipes.MesonRecipe) else project.step(context, found)
    )


def _recipe(context: Context, name: str, kind: type[R]) -> R:
    found = context.project.recipe(name)
    if not isinstance(found, kind):
        wanted = kind.__struct_config__.tag
        raise InputError(f"expected a recipe of kind {wanted}", place=Place(f"recipes/{name}.yaml"))
    return found


def _environments(context: Context, made: list[AnyStep], aside: set[str]) -> list[AnyStep]:
    names = {step.environment for step in made if hasattr(step, "environment")} | aside
    return [
        environment.step(context, _recipe(context, name, recipes.EnvironmentRecipe)) for name in sorted(names)
    ]
