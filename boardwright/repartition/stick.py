"""The steps that make the rescue stick's image. On the host; not part of what runs on the board."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boardwright.build.plan import Plan
    from boardwright.build.step import Input
    from boardwright.kinds.context import Context

RECIPE = "rescue"
IMAGE, BMAP = "rescue.img", "rescue.bmap"
LABEL = "bw-rescue"
SIGNATURE = "b07d5eed"
"""Of the MBR: fixed, since the board's bootargs name it."""
ROOT = f"PARTUUID={SIGNATURE}-01"
PROGRAM = "boardwright/repartition"
_HOST_ONLY = {"stick.py", "drive.py"}
_SCRIPT = "cd /in && exec python3 -S -m sealed.stick\n"


def plan(context: Context) -> Plan:
    """The plan for ``rescue.img``. Raises ``InputError`` without a lock."""
    from boardwright.build.plan import make
    from boardwright.build.step import Output, RootStep, Step
    from boardwright.kinds import environment
    from boardwright.kinds.context import packages
    from boardwright.layout.identifiers import identifier
    from boardwright.schema.recipe import EnvironmentRecipe, RootfsRecipe

    recipe = context.project.recipe(RECIPE)
    assert isinstance(recipe, RootfsRecipe)
    tools = context.project.recipe(recipe.environment)
    assert isinstance(tools, EnvironmentRecipe)
    lock = context.lock(RECIPE)
    base = RootStep(
        name=f"{RECIPE}-base",
        title=f"Debian {recipe.suite} {recipe.architecture} from {len(lock.files)} packages",
        architecture=recipe.architecture,
        packages=packages(lock),
        output="root.tar",
        epoch=lock.epoch,
        options=tuple(recipe.options),
    )
    inputs: dict[str, Input] = {"base/root.tar": Output(base.name, "root.tar")}
    inputs |= {f"repartition/{name}": context.file(f"{PROGRAM}/{name}") for name in programs(context.root)}
    inputs["rescue-init"] = context.file(f"{PROGRAM}/rescue-init")
    image = Step(
        name=RECIPE,
        title="rescue stick",
        script=_SCRIPT,
        environment=recipe.environment,
        outputs=(IMAGE, BMAP),
        inputs=inputs,
        variables={
            "LABEL": LABEL,
            "UUID": str(identifier(lock.request, "rescue stick")),
            "SIGNATURE": SIGNATURE,
        },
        epoch=lock.epoch,
        sealed=("stick.py", "bmap.py", "inuse.py", "rootfs.py", "tartree.py", "tooling.py"),
    )
    return make([environment.step(context, tools), base, image], [image.name])


def programs(root: Path) -> Collection[str]:
    """The files of the program that the board runs."""
    return sorted(path.name for path in (root / PROGRAM).glob("*.py") if path.name not in _HOST_ONLY)
