"""What a build says about itself at the end, and writes into its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from boardwright.build.progress import short
from boardwright.build.store import Entry
from boardwright.image.names import image_name
from boardwright.kinds import emmc
from boardwright.kinds.image import boot_words, command_line
from boardwright.kinds.kernel import absent_topics, topics
from boardwright.schema.recipe import DebianKernelRecipe
from boardwright.targets.emmc import emulated
from boardwright.verbs.common import Request

NO_VENDOR = (
    "the vendor's package, a file such as AX650_pipro_box_ubuntu_rootfs_desktop_V3.10.2_….axp, may not be "
    "redistributed; `--vendor FILE.axp` adds its kernel, device tree, U-Boot, TF-A, OP-TEE and /soc, and "
    "makes a flashable .axp and the sets for SD card, USB stick and TFTP; without it there is the root file "
    "system, and an emulated board with stand-ins in /soc and /opt"
)


def describe_request(asked: Request, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The manifest's account of the board: what it holds, what is left out and why."""
    board = asked.context.board
    kernel = entries[board.kernel.recipe].out
    return {
        "board": board.board,
        "variant": asked.variant,
        "kernel": {
            "recipe": board.kernel.recipe,
            "release": (kernel / "release").read_text().strip(),
            "patches": topics(asked.context),
        },
        "boot": _boot(asked),
        "epoch": asked.context.lock(board.rootfs.recipe).epoch,
        "left_out": left_out(asked, entries),
    }


def _boot(asked: Request) -> dict[str, Any]:
    """``append``: the kernel's command line, in the emulator when the board's ``bootargs`` differ."""
    if not emmc.is_emmc(asked.context):
        return {
            "append": command_line(asked.context),
            "root-partuuid": boot_words(asked.context)["root_partuuid"],
        }
    bootargs = emmc.bootargs(asked.context)
    return {"append": emulated(bootargs), "bootargs": bootargs, "cmmpool": emmc.cmmpool(asked.context)}


def left_out(asked: Request, entries: Mapping[str, Entry]) -> dict[str, str]:
    """What a user might expect in this image and does not get, each with the reason."""
    board, reasons = asked.context.board, dict[str, str]()
    if isinstance(asked.context.project.recipe(board.kernel.recipe), DebianKernelRecipe):
        reasons["patches"] = "the kernel is Debian's own package: nothing was compiled, no patch applied"
    reasons |= {f"patches {topic}": reason for topic, reason in absent_topics(asked.context).items()}
    if emmc.is_emmc(asked.context):
        reasons["vendor firmware"] = NO_VENDOR
    elif board.boot.loader is None:
        reasons["loader"] = "this variant builds none; the board boots it with the U-Boot in its SPI flash"
    else:
        loader = json.loads((entries[board.boot.loader].out / "loader.json").read_text())
        reasons |= loader["left_out"]
    for overlay in (
        []
        if emmc.is_emmc(asked.context)
        else json.loads((entries["overlays"].out / "overlays.json").read_text())
    ):
        if overlay["state"] != "applied":
            reasons[f"overlay {overlay['name']}"] = overlay["reason"]
    if asked.context.local.root_password_hash is None and not asked.context.local.ssh_authorized_keys:
        reasons["remote login"] = "local.yaml names no SSH key and no password: login is on the console only"
    return reasons


def summary(asked: Request, manifest: Mapping[str, Any], sha256: str) -> str:
    """The lines shown after a build; ``sha256`` is the image's."""
    kernel = manifest["kernel"]
    image = asked.out / image_name(asked.context.board)
    info = image.stat()
    lines = [
        f"{short(image)}   {info.st_size / 2**20:.0f} MiB, {info.st_blocks * 512 / 2**20:.0f} MiB of data",
        f"  sha256 {sha256}",
        f"  kernel {kernel['release']} ({', '.join(kernel['patches']) or 'no patches'})",
        *(f"  left out: {name}: {reason}" for name, reason in manifest["left_out"].items()),
    ]
    return "\n".join(lines)
