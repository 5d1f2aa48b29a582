"""Kind ``ax-standin``: what takes the place of the AX650N's closed pieces on the emulated board."""

from __future__ import annotations

from boardwright.build.step import Input, Output, Step
from boardwright.errors import InputError, Place
from boardwright.kinds.context import Context, download, script
from boardwright.patches.staged import staged
from boardwright.schema.recipe import AxStandinRecipe, KernelRecipe

SOC, OPT = "soc.tar", "opt.tar"
DRIVER = "native/ax-standin"
LIBRARY = ("native/npu-matmul/tests/fake/ax_library.c", "native/npu-matmul/src/ax-types.h")
"""The run-time that the native tests run against."""


def step(context: Context, recipe: AxStandinRecipe, cmmpool: str) -> Step:
    """``soc.tar`` and ``opt.tar`` for a board whose CMM pools are ``cmmpool``.

    The module is for the board's kernel, so that must be a compiled one. Raises ``InputError``.
    """
    name = context.board.kernel.recipe
    kernel = context.project.recipe(name)
    if not isinstance(kernel, KernelRecipe):
        raise InputError(
            f"the stand-in module needs a kernel of kind kernel, found {name!r}",
            place=Place(f"boards/{context.board.board}/board.yaml"),
        )
    lock = context.lock(name)
    source = lock.files[0]
    asked = staged(context, "kernel", [*kernel.patches, *context.board.kernel.patches], source.version)
    inputs: dict[str, Input] = {
        "source": download(source),
        "kernel.config": Output(name, "config"),
        "module/Kbuild": context.file(f"{DRIVER}/Kbuild"),
        "module/ax_cmm.c": context.file(f"{DRIVER}/ax_cmm.c"),
        "load": context.rendered(f"{DRIVER}/auto_load_all_drv.sh.j2", {"cmmpool": cmmpool}),
        **{f"native/{path.removeprefix('native/')}": context.file(path) for path in LIBRARY},
        **asked.inputs,
    }
    return Step(
        name=recipe.recipe,
        title="stand-ins for the vendor's modules and run-time, labelled modelled",
        script=script("ax_standin"),
        environment=recipe.environment,
        outputs=(SOC, OPT),
        inputs=inputs,
        variables={
            "PATCHES": " ".join(asked.topics),
            "LOCALVERSION": kernel.localversion,
            "MODELS": " ".join(recipe.models),
        },
        epoch=lock.epoch,
        sealed=("patchtree.py",),
        kept_tree=recipe.recipe,
        ccache=True,
    )
