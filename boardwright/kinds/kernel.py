"""Kinds ``kernel`` (compiled, patched, every asked-for option enforced) and ``debian-kernel`` (as shipped).

Both leave the same outputs, so that nothing after them needs to know which one made the kernel:
``Image``, ``modules.tar``, ``dtbs/<vendor>/<board>.dtb``, ``config``, ``System.map``, ``release``.
"""

from __future__ import annotations

from boardwright.build.step import Input, Step
from boardwright.kinds.context import Context, download, downloads, script
from boardwright.schema.recipe import DebianKernelRecipe, KernelRecipe

OUTPUTS = ("Image", "modules.tar", "dtbs", "config", "System.map", "release")


def topics(context: Context) -> list[str]:
    """The patch topics of the board's kernel in order; none for a kernel that is not compiled."""
    recipe = context.project.recipe(context.board.kernel.recipe)
    return [*recipe.patches, *context.board.kernel.patches] if isinstance(recipe, KernelRecipe) else []


def step(context: Context, recipe: KernelRecipe) -> Step:
    lock, kernel = context.lock(recipe.recipe), context.board.kernel
    source = lock.files[0]
    patches = topics(context)
    fragments = [*recipe.config, *kernel.config]
    inputs: dict[str, Input] = {"source": download(source)}
    inputs |= {f"config/{name}": context.file(f"recipes/linux/{name}") for name in fragments}
    inputs |= {f"patches/{topic}": context.file(f"patches/kernel/{topic}") for topic in patches}
    return Step(
        name=recipe.recipe,
        title=f"{source.package} {source.version}, {len(patches)} patch topics, {len(fragments)} fragments",
        script=script("kernel"),
        environment=recipe.environment,
        outputs=OUTPUTS,
        inputs=inputs,
        variables={
            "CONFIG": " ".join(fragments),
            "PATCHES": " ".join(patches),
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
