"""``invoke build --vendor-sdk DIR``: the vendor's kernel, held against the vendor's closed modules."""

from __future__ import annotations

import io
from pathlib import Path

from boardwright.build import executor
from boardwright.build.plan import make
from boardwright.build.step import AnyStep
from boardwright.errors import InputError, Place
from boardwright.kinds import emmc, environment, vendor_kernel
from boardwright.schema.recipe import EnvironmentRecipe
from boardwright.vendor import axera_header, sdk, vermagic
from boardwright.verbs.build import builder
from boardwright.verbs.common import Request, say

OUT = "vendor-kernel"


def sdk_of(directory: str) -> sdk.Sdk:
    """What ``--vendor-sdk`` names. Raises ``InputError`` for a directory that is no SDK."""
    path = Path(directory)
    if not path.is_dir():
        raise InputError("--vendor-sdk: expected a directory", place=Place(directory))
    return sdk.find(path.resolve())


def build_kernel(asked: Request, found: sdk.Sdk, jobs: int = 0) -> Path:
    """Compile, compare, and write ``out/<board>/vendor-kernel/``; its ``kernel.img``.

    Raises ``InputError`` when the closed modules do not fit the kernel, or an image not its partition.
    """
    made = _compiled(asked, found, jobs)
    release = (made / "release").read_text().strip()
    config = vermagic.parse_config((made / "config").read_text())
    vermagic.check(found.modules, release, config)
    out = asked.out / OUT
    out.mkdir(parents=True, exist_ok=True)
    for name, image in (("Image", "kernel.img"), ("dtb", "dtb.img")):
        headed = io.BytesIO()
        with (made / name).open("rb") as file:
            axera_header.wrap(file, headed)
        _fits(asked, image.removesuffix(".img"), len(headed.getvalue()))
        (out / image).write_bytes(headed.getvalue())
    (out / "config").write_text((made / "config").read_text())
    magic = vermagic.wanted(found.modules)
    say(f"{out}: Linux {release} for {len(found.modules)} closed modules of {magic!r}")
    return out / "kernel.img"


def _compiled(asked: Request, found: sdk.Sdk, jobs: int) -> Path:
    recipe = asked.context.project.recipe(vendor_kernel.ENVIRONMENT)
    assert isinstance(recipe, EnvironmentRecipe)
    steps: list[AnyStep] = [environment.step(asked.context, recipe), vendor_kernel.step(asked.context, found)]
    entries = executor.build(make(steps, (vendor_kernel.STEP,)), builder(asked, jobs))
    return entries[vendor_kernel.STEP].out


def _fits(asked: Request, contents: str, size: int) -> None:
    partition = emmc.table(asked.context).holding(contents)
    if size > partition.size:
        raise InputError(
            f"partition {partition.name} has {partition.size} bytes, the new one needs {size}",
            place=Place(f"boards/{asked.board_name}/board.yaml"),
        )
