"""What a build says about itself at the end, and writes into its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from boardwright.build.progress import short
from boardwright.build.store import Entry
from boardwright.kinds.image import boot_words, command_line
from boardwright.kinds.kernel import absent_topics, topics
from boardwright.schema.recipe import DebianKernelRecipe
from boardwright.verbs.common import Request


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
        "boot": {
            "append": command_line(asked.context),
            "root-partuuid": boot_words(asked.context)["root_partuuid"],
        },
        "epoch": asked.context.lock(board.rootfs.recipe).epoch,
        "left_out": left_out(asked, entries),
    }


def left_out(asked: Request, entries: Mapping[str, Entry]) -> dict[str, str]:
    """What a user might expect in this image and does not get, each with the reason."""
    board, reasons = asked.context.board, dict[str, str]()
    if isinstance(asked.context.project.recipe(board.kernel.recipe), DebianKernelRecipe):
        reasons["patches"] = "the kernel is Debian's own package: nothing was compiled, no patch applied"
    reasons |= {f"patches {topic}": reason for topic, reason in absent_topics(asked.context).items()}
    if board.boot.loader is None:
        reasons["loader"] = "this variant builds none; the board boots it with the U-Boot in its SPI flash"
    else:
        loader = json.loads((entries[board.boot.loader].out / "loader.json").read_text())
        reasons |= loader["left_out"]
    for overlay in json.loads((entries["overlays"].out / "overlays.json").read_text()):
        if overlay["state"] != "applied":
            reasons[f"overlay {overlay['name']}"] = overlay["reason"]
    if asked.context.local.root_password_hash is None and not asked.context.local.ssh_authorized_keys:
        reasons["remote login"] = "local.yaml names no SSH key and no password: login is on the console only"
    return reasons


def summary(asked: Request, manifest: Mapping[str, Any], sha256: str) -> str:
    """The lines shown after a build; ``sha256`` is the image's."""
    kernel = manifest["kernel"]
    image = asked.out / f"{asked.board_name}.img"
    info = image.stat()
    lines = [
        f"{short(image)}   {info.st_size / 2**20:.0f} MiB, {info.st_blocks * 512 / 2**20:.0f} MiB of data",
        f"  sha256 {sha256}",
        f"  kernel {kernel['release']} ({', '.join(kernel['patches']) or 'no patches'})",
        *(f"  left out: {name}: {reason}" for name, reason in manifest["left_out"].items()),
    ]
    return "\n".join(lines)
