"""Kind ``image``: partitions, file systems and loader bytes as one disk image with its bmap."""

from __future__ import annotations

from typing import Any

import msgspec

from boardwright.build.step import Input, Output, Step, Text
from boardwright.kinds.context import Context, script
from boardwright.layout import description, memory, partitions
from boardwright.schema.recipe import DebianKernelRecipe, ImageRecipe

SEALED = ("bmap.py", "boot.py", "gpt.py", "image.py", "inuse.py", "root.py", "tooling.py")


class Parts(msgspec.Struct, frozen=True):
    """The names of the steps an image is put together from."""

    kernel: str
    rootfs: str
    overlays: str
    loader: str | None


def steps(context: Context, recipe: ImageRecipe, parts: Parts) -> list[Step]:
    """The image, and the image compressed."""
    image = _image(context, recipe, parts)
    compressed = f"{context.board.board}.img.zst"
    return [
        image,
        Step(
            name="image-zst",
            title="image compressed",
            script=script("compress"),
            environment=recipe.environment,
            outputs=(compressed,),
            inputs={"image": Output(image.name, image.outputs[0])},
            variables={"NAME": compressed},
        ),
    ]


def _image(context: Context, recipe: ImageRecipe, parts: Parts) -> Step:
    board = context.board
    boot = boot_words(context)
    files = _boot_files(context, parts)
    template = context.rendered(_boot_script(context), boot)
    inputs: dict[str, Input] = {
        "layout.json": Text(_layout(context, files, parts)),
        "rootfs.tar": Output(parts.rootfs, "rootfs.tar"),
        "kernel": Output(parts.kernel),
        "overlays": Output(parts.overlays, "overlays"),
        "extlinux.conf": template,
    }
    if parts.loader:
        inputs["loader"] = Output(parts.loader)
    return Step(
        name="image",
        title=f"{board.disk.size} disk of {len(board.partitions)} partitions",
        script=script("image"),
        environment=recipe.environment,
        outputs=(f"{board.board}.img", f"{board.board}.bmap"),
        inputs=inputs,
        epoch=context.lock(board.rootfs.recipe).epoch,
        sealed=SEALED,
    )


def _layout(context: Context, files: dict[str, str], parts: Parts) -> str:
    board = context.board
    return description.describe(
        partitions.resolve(board.disk, board.partitions),
        context.identity,
        board=board.board,
        boot_files=files,
        loader={name: f"loader/{name}" for name in _loader_files(context)} if parts.loader else {},
        release="kernel/release",
    )


def _loader_files(context: Context) -> list[str]:
    """What the loader's step leaves for the holes: no idbloader without the vendor's blob."""
    from boardwright.kinds.loader import vendor_file
    from boardwright.schema.recipe import LoaderRecipe

    recipe = context.project.recipe(context.board.boot.loader or "")
    complete = isinstance(recipe, LoaderRecipe) and vendor_file(context, recipe.vendor) is not None
    return [hole.contents for hole in context.board.disk.holes if hole.contents] if complete else []


def _boot_files(context: Context, parts: Parts) -> dict[str, str]:
    tree = context.board.kernel.device_tree
    files = {
        "Image": "kernel/Image",
        f"dtbs/{tree}": f"kernel/dtbs/{tree}",
        "dtbs/overlays": "overlays",
        "extlinux/extlinux.conf": "extlinux.conf",
    }
    if _has_initrd(context, parts.kernel):
        files["initrd.img"] = "kernel/initrd.img"
    return files


def _boot_script(context: Context) -> str:
    return f"boards/{context.board.board}/{context.board.boot.script}"


def _has_initrd(context: Context, kernel: str) -> bool:
    return isinstance(context.project.recipe(kernel), DebianKernelRecipe)


def boot_words(context: Context) -> dict[str, Any]:
    """What the boot script's template may use, and what a check compares the running system with."""
    board = context.board
    root = next(partition for partition in board.partitions if partition.contents == "rootfs")
    return {
        "board": board.board,
        "title": f"{board.description}, {board.kernel.recipe}",
        "initrd": _has_initrd(context, board.kernel.recipe),
        "device_tree": board.kernel.device_tree,
        "fdtoverlays": board.boot.overlays,
        "root_partuuid": description.partition_guid(context.identity, root.name),
        "cma": memory.cma_argument(board.memory.cma) if board.memory.cma else "",
        "append": board.boot.append,
    }


def command_line(context: Context) -> str:
    """The kernel command line that the boot script's ``append`` ends up with, blanks folded."""
    from boardwright.build.stage import rendered

    template = context.root / _boot_script(context)
    lines = (line.split() for line in rendered(template, template, boot_words(context)).splitlines())
    return " ".join(next(words[1:] for words in lines if words[:1] == ["append"]))
