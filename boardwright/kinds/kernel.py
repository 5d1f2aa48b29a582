"""Kinds ``kernel`` (compiled, patched, every asked-for option enforced) and ``debian-kernel`` (as shipped).

Both leave the same outputs, so that nothing after them needs to know which one made the kernel:
``Image``, ``modules.tar``, ``dtbs/<vendor>/<board>.dtb``, ``config``, ``System.map``, ``release``.
"""

from __future__ import annotations

from boardwright.build.step import Input, Step
from boardwright.kinds.context import Context, download, downloads, script
from boardwright.patches.staged import Staged, staged
from boardwright.schema.recipe import DebianKernelRecipe, KernelRecipe

OUTPUTS = ("Image", "modules.tar", "dtbs", "config", "System.map", "release")


def patches(context: Context) -> Staged | None:
    """The patches of the board's kernel; None for a kernel that is not compiled."""
    recipe = context.project.recipe(context.board.kernel.recipe)
    if not isinstance(recipe, KernelRecipe):
        return None
    asked = [*recipe.patches, *context.board.kernel.patches]
    return staged(context, "kernel", asked, context.lock(recipe.recipe).files[0].version)


def topics(context: Context) -> list[str]:
    """The patch topics in the board's kernel, in order."""
    found = patches(context)
    return list(found.topics) if found else []


def absent_topics(context: Context) -> dict[str, str]:
    """The patch topics that the board asks for and its kernel's line does not get, with the reason."""
    found = patches(context)
    return dict(found.absent) if found else {}


def step(context: Context, recipe: KernelRecipe) -> Step:
    lock, kernel = context.lock(recipe.recipe), context.board.kernel
    source = lock.files[0]
    asked = staged(context, "kernel", [*recipe.patches, *kernel.patches], source.version)
    fragments = [*recipe.config, *kernel.config]
    inputs: dict[str, Input] = {"source": download(source)}
    inputs |= {f"config/{name}": context.file(f"recipes/linux/{name}") for name in fragments}
    inputs |= asked.inputs
    return Step(
        name=recipe.recipe,
        title=f"{source.package} {source.version}, {asked.title}, {len(fragments)} fragments",
        script=script("kernel"),
        environment=recipe.environment,
        outputs=OUTPUTS,
        inputs=inputs,
        variables={
            "CONFIG": " ".join(fragments),
            "PATCHES": " ".join(asked.topics),
            "DTBS": kernel.device_tree,
            "LOCALVERSION": recipe.localversion,
        },
        epoch=lock.epoch,
        sealed=("kconfig.py", "patchtree.py"),
        kept_tree=recipe.recipe,
        ccache=True,
    )


def debian_step(context: Context, recipe: DebianKernelRecipe) -> Step:
    lock = context.lock(recipe.recipe)
    return Step(
        name=recipe.recipe,
        title=f"{recipe.package} as Debian built it, with a small initramfs",
        script=script("debian_kernel"),
        environment=recipe.environment,
        outputs=(*OUTPUTS, "initrd.img"),
        inputs=dict(downloads(lock.files, "debs")),
        variables={"DTBS": context.board.kernel.device_tree, "MODULES": " ".join(recipe.modules)},
        epoch=lock.epoch,
        sealed=("init.sh", "initramfs.py"),
    )
