"""Kinds ``u-boot`` (TF-A and U-Boot) and ``device-tree-overlays``."""

from __future__ import annotations

from pathlib import Path

from boardwright.build.step import Download, Input, Output, Step
from boardwright.kinds.context import Context, downloads, script
from boardwright.schema.board import Vendor
from boardwright.schema.recipe import LoaderRecipe, OverlaysRecipe

COMPLETE = ("idbloader.img", "u-boot-rockchip-spi.bin")
"""What holds the DRAM initialisation: the start of a card or eMMC, and all of the SPI flash."""


def step(context: Context, recipe: LoaderRecipe) -> Step:
    lock = context.lock(recipe.recipe)
    firmware = [file for file in lock.files if file.package == recipe.firmware.debian]
    inputs: dict[str, Input] = {
        **downloads((file for file in lock.files if file not in firmware), "u-boot"),
        **downloads(firmware, "firmware"),
    }
    blob = vendor_file(context, recipe.vendor)
    if blob:
        inputs["ddr.bin"] = blob
    return Step(
        name=recipe.recipe,
        title=f"U-Boot {recipe.defconfig} and TF-A {recipe.platform}"
        + ("" if blob else f", without {recipe.vendor}: no idbloader"),
        script=script("uboot"),
        environment=recipe.environment,
        outputs=("u-boot.itb", "config", "loader.json", *(COMPLETE if blob else ())),
        inputs=inputs,
        variables={"DEFCONFIG": recipe.defconfig, "PLATFORM": recipe.platform},
        epoch=lock.epoch,
        sealed=("debian_source.sh",),
    )


def vendor_file(context: Context, name: str | None) -> Download | None:
    """The vendor file the user supplied under this name, from ``local.yaml`` or the board file."""
    if name is None:
        return None
    given: Vendor | None = context.local.vendor.get(name) or context.board.vendor.get(name)
    if given is None:
        return None
    where = given.url or str((context.root / (given.path or "")).absolute())
    return Download(where, given.size or 0, given.sha256)


def overlays_step(context: Context, recipe: OverlaysRecipe, kernel: str) -> Step:
    board = context.board
    return Step(
        name=recipe.recipe,
        title=f"device-tree overlays applied to {Path(board.kernel.device_tree).name}",
        script=script("overlays"),
        environment=recipe.environment,
        outputs=("overlays", "overlays.json"),
        inputs={
            "dtb": Output(kernel, f"dtbs/{board.kernel.device_tree}"),
            "overlays": context.file(f"overlays/device-tree/{board.board}"),
        },
        variables={"REQUIRED": " ".join(board.boot.overlays)},
        sealed=("dtoverlay.py", "fdt.py"),
    )
