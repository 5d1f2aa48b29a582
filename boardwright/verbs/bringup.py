"""``invoke bringup`` and ``invoke qemu``: the built image, booted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardwright.errors import InputError, Place
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.verbs.build import environment
from boardwright.verbs.common import Request, request

if TYPE_CHECKING:
    from boardwright.targets import qemu as machine

TARGETS = ("qemu", "replay")


def bringup(
    root: Path,
    board: str,
    variant: str,
    target: str,
    u_boot: bool,
    recording: str,
    budget: int,
    device: str = "",
    *,
    coherent: bool = True,
    lab: bool = False,
) -> int:
    """Boot the built image on ``target`` and run the checks: 0 passed, 1 the product failed, 3 the lab."""
    from boardwright.bringup.bench import Options
    from boardwright.bringup.run import bringup as run

    if target not in TARGETS:
        raise InputError(f"no target {target!r}", hint=f"targets are {' and '.join(TARGETS)}")
    asked = request(root, board, variant)
    image, manifest = built(asked)
    options = Options(
        target="replay" if target == "replay" else "qemu",
        budget=float(budget),
        qemu=_with_lab(asked, u_boot, device, coherent) if lab else _options(u_boot, device, coherent),
        recording=Path(recording) if recording else None,
    )
    return run(
        image if target == "qemu" else None,
        asked.context.board,
        manifest,
        environment(asked, QEMU_ENVIRONMENT) if target == "qemu" else Path("/"),
        asked.out / "bringup",
        options,
    )


def _with_lab(asked: Request, u_boot: bool, device: str, coherent: bool) -> machine.Options:
    """The machine with the lab's PCI BAR and programs (boardwright/hunt/lab.py), built when missing."""
    from dataclasses import replace

    from boardwright.build import executor
    from boardwright.hunt.lab import options
    from boardwright.verbs.build import builder

    entry = executor.build(asked.plan("lab"), builder(asked))["lab"]
    lab = options({"lab": entry.out / "lab.tar"})
    return replace(lab, u_boot=u_boot, devices=(*lab.devices, *device.split()), coherent=coherent)


def qemu(root: Path, board: str, variant: str, u_boot: bool, device: str) -> int:
    """QEMU on this terminal; its exit status is ours."""
    from boardwright.targets.qemu import interactive

    asked = request(root, board, variant)
    image, _ = built(asked)
    print("Ctrl-A X ends the emulator; the image is not written", file=sys.stderr)
    return interactive(
        image, asked.context.board.emulation, environment(asked, QEMU_ENVIRONMENT), _options(u_boot, device)
    )


def _options(u_boot: bool, device: str, coherent: bool = True) -> machine.Options:
    from boardwright.targets.qemu import Options

    return Options(u_boot=u_boot, devices=tuple(device.split()), coherent=coherent)


def built(asked: Request) -> tuple[Path, dict[str, Any]]:
    """The published image and its manifest. Raises ``InputError`` when it was never built."""
    image, manifest = asked.out / f"{asked.board_name}.img", asked.out / "manifest.json"
    variant = f" --variant {asked.variant}" if asked.variant else ""
    hint = f"run `invoke build --board {asked.board_name}{variant}` first"
    for path in (image, manifest):
        if not path.exists():
            raise InputError("not there yet", place=Place(str(path)), hint=hint)
    try:
        found: dict[str, Any] = json.loads(manifest.read_text())
    except ValueError as error:
        raise InputError(f"not JSON: {error}", place=Place(str(manifest)), hint=hint) from error
    return image, found
