"""Kind ``ax-standin``: what takes the place of the AX650N's closed pieces on the emulated board."""

from __future__ import annotations

from boardwright.build.step import Input, Output, Step
from boardwright.errors import InputError, Place
from boardwright.kinds.context import Context, download, script
from boardwright.patches.staged import staged
from boardwright.schema.recipe import AxStandinRecipe, KernelRecipe

MODULE, SOC, OPT = "ax_cmm.ko", "soc.tar", "opt.tar"
DRIVER = "native/ax-standin"
LIBRARY = ("native/npu-matmul/tests/fake/ax_library.c", "native/npu-matmul/src/ax-types.h")
"""The run-time that the native tests run against."""


def steps(context: Context, recipe: AxStandinRecipe, cmmpool: str) -> list[Step]:
    """The module for the board's kernel, and ``soc.tar`` and ``opt.tar`` for CMM pools of ``cmmpool``.

    Raises ``InputError`` when that kernel is not a compiled one.
    """
    module = _module(context, recipe)
    inputs: dict[str, Input] = {
        MODULE: Output(module.name, MODULE),
        "load": context.rendered(f"{DRIVER}/auto_load_all_drv.sh.j2", {"cmmpool": cmmpool}),
        **{path: context.file(path) for path in LIBRARY},
        "says": context.file(f"{DRIVER}/says"),
    }
    tarballs = Step(
        name=recipe.recipe,
        title="stand-ins for the vendor's modules and run-time, labelled modelled",
        script=script("ax_standin"),
        environment=recipe.environment,
        outputs=(SOC, OPT),
        inputs=inputs,
        variables={"MODELS": " ".join(recipe.models)},
        epoch=module.epoch,
    )
    return [module, tarballs]


def _module(context: Context, recipe: AxStandinRecipe) -> Step:
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
        **asked.inputs,
    }
    return Step(
        name=f"{recipe.recipe}-module",
        title=f"ax_cmm.ko for {name}, a stand-in",
        script=script("ax_standin_module"),
        # The kernel's own compiler.
        environment=kernel.environment,
        outputs=(MODULE,),
        inputs=inputs,
        variables={"PATCHES": " ".join(asked.topics), "LOCALVERSION": kernel.localversion},
        epoch=lock.epoch,
        sealed=("patchtree.py",),
        kept_tree=recipe.recipe,
        ccache=True,
    )
