"""``invoke bringup`` and ``invoke qemu``: the built image, booted."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardwright.errors import InputError, Place
from boardwright.image.names import image_name
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.verbs.build import environment
from boardwright.verbs.common import Request, request

if TYPE_CHECKING:
    from boardwright.console.strategy import Strategy
    from boardwright.targets import qemu as machine

PASSWORD = "BOARDWRIGHT_CONSOLE_PASSWORD"
"""Of root, on a board whose console asks for one; a command line would show it to everybody."""


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
    power: str = "",
    coordinator: str = "",
    only: str = "",
    repeat: int = 1,
    until_fail: bool = False,
    retries: int = 0,
    bootargs: str = "",
    loader_commands: str = "",
    boot_command: str = "",
    tell_apart: bool = False,
) -> int:
    """Boot the built image on ``target`` and run the checks: 0 passed, 1 the product failed, 3 the lab.

    ``bootargs``, ``loader_commands`` (``;`` between) and ``boot_command``: for U-Boot, for this boot only.
    ``tell_apart``: after a silence, one power cycle shows whether board or line was at fault.
    """
    from boardwright.bringup.bench import Options
    from boardwright.bringup.repeat import Plan
    from boardwright.bringup.run import bringup as run
    from boardwright.console.loader import Autoboot
    from boardwright.console.strategy import Strategy
    from boardwright.verbs import targets
    from boardwright.verbs.results import history_file

    where = targets.parse(target, recording)
    plan = Plan(times=repeat, until_fail=until_fail, retries=retries)
    asked = request(root, board, variant)
    strategy = Strategy(
        autoboot=Autoboot(asked.context.board.console.stop_autoboot),
        commands=tuple(word.strip() for word in loader_commands.split(";") if word.strip()),
        bootargs=bootargs or None,
        boot=boot_command or "boot",
        tell_apart=tell_apart,
    )
    _has_loader(strategy, where.kind, u_boot)
    if tell_apart and not power:
        raise InputError("--tell-apart takes a switch", hint="add --power: docs/console.md")
    image, manifest = built(asked)
    options = Options(
        target=where.kind,
        budget=float(budget),
        qemu=_with_lab(asked, u_boot, device, coherent) if lab else _options(u_boot, device, coherent),
        recording=where.recording,
        password=os.environ.get(PASSWORD),
        only=only,
        history=history_file(),
        connect=targets.connect(where, asked.context.board.console.baud, power, coordinator),
        strategy=strategy,
        cycle=targets.cycle(power) if tell_apart else None,
    )
    return run(
        None if where.kind == targets.REPLAY else image,
        asked.context.board,
        manifest,
        environment(asked, QEMU_ENVIRONMENT) if where.kind == targets.QEMU else Path("/"),
        asked.out / "bringup",
        options,
        plan,
    )


def _has_loader(strategy: Strategy, kind: str, u_boot: bool) -> None:
    """Raise ``InputError`` when the loader is to be told something and there is none on the way."""
    if strategy.needs_loader and (kind == "replay" or (kind == "qemu" and not u_boot)):
        raise InputError(
            "--bootargs, --loader-commands and --boot-command are for U-Boot, and this boot has none",
            hint="add --u-boot" if kind == "qemu" else "a recording says only what it said",
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
    image, manifest = asked.out / image_name(asked.context.board), asked.out / "manifest.json"
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
