"""``invoke repartition``: another layout for a board's eMMC, over its serial console and a rescue stick."""

from __future__ import annotations

import contextlib
import json as json_
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardwright.errors import ExitStatus, InputError
from boardwright.verbs import targets
from boardwright.verbs.common import Request, request, say

if TYPE_CHECKING:
    from boardwright.layout.split import Split


def repartition(
    root: Path,
    board: str,
    variant: str,
    console: str,
    *,
    to: str = "",
    format: str = "",
    delete: str = "",
    stick_root: str = "",
    new_root: str = "",
    power: str = "",
    coordinator: str = "",
    budget: int = 300,
    dry_run: bool = False,
    yes: bool = False,
    stick: bool = False,
    json: bool = False,
) -> int:
    """0 the board runs with the new layout (or ``dry_run`` printed the plan), 1 it does not, 2 refused, 3
    the lab.

    ``stick``: make the image for the stick and tell where it is. ``budget``: seconds from power-on to a
    shell.
    """
    asked = request(root, board, variant)
    if stick:
        return _stick(asked)
    from boardwright.repartition import drive
    from boardwright.repartition.stick import ROOT

    split = None if to else _split(asked)
    job = drive.Job(
        to=_layout(asked, to),
        mem=split.mem if split else "",
        stick_root=stick_root or ROOT,
        root=new_root,
        format=_names(format),
        delete=_names(delete),
    )
    return _over_console(
        asked, console, job, split, power, coordinator, float(budget), dry_run=dry_run, yes=yes, as_json=json
    )


def _over_console(
    asked: Request,
    target: str,
    job: Any,
    split: Split | None,
    power: str,
    coordinator: str,
    budget: float,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    from boardwright.console.channel import pace_of
    from boardwright.console.console import Console
    from boardwright.console.loader import Autoboot
    from boardwright.console.transcript import Transcript
    from boardwright.repartition import drive

    where = targets.parse(target) if target else None
    if where is None or where.kind not in (targets.SERIAL, targets.LABGRID):
        raise InputError(f"--console: expected serial:PORT or labgrid:PLACE, found {target!r}")
    words = asked.context.board.console
    connect = targets.connect(where, words.baud, power, coordinator, cycle=bool(power))
    assert connect is not None
    cast = asked.out / "repartition" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.cast"
    with contextlib.ExitStack() as stack:
        say(f"transcript {cast}")
        port = connect(stack)
        title = f"{asked.board_name}: repartition"
        transcript = stack.enter_context(Transcript(cast, title, raw=cast.with_suffix(".raw")))
        console = stack.enter_context(Console(port, transcript=transcript, pace=pace_of(words)))
        say("switch the board on now" if not power else "stopping U-Boot's countdown")
        drive.to_rescue(console, job, budget, Autoboot(words.stop_autoboot))
        if left := drive.interrupted(console):
            say(left)
            if dry_run:
                return ExitStatus.OK
            drive.carry_out(console, "resume", 24 * 3600, say)
        if not dry_run:
            drive.settle(console, job, say)
        text, planned = drive.plan(console, job)
        print(json_.dumps(planned) if as_json else text, end="\n" if as_json else "")
        if dry_run or (not planned["operations"] and split is None):
            drive.restart(console)
            return ExitStatus.OK
        # What a resumed run left to be grown needs no second yes.
        changes = any(operation["kind"] != "grow" for operation in planned["operations"])
        if not yes and (changes or not left) and not _confirmed():
            say("nothing was changed")
            drive.restart(console)
            return ExitStatus.INPUT
        if changes:
            drive.carry_out(console, f"run {job.words()}", 600 + 6 * planned["seconds"], say)
        drive.restart(console)
        console.boot(budget)
        drive.check(console, job, planned, say)
        if split is not None and drive.set_pools(console, split, say):
            drive.restart(console, "sync; reboot")
            console.boot(budget)
            drive.check(console, job, {"operations": []}, say)
    return ExitStatus.OK


def _stick(asked: Request) -> int:
    from boardwright.build import executor
    from boardwright.repartition import stick
    from boardwright.verbs.build import builder

    made = executor.build(stick.plan(asked.context), builder(asked))[stick.RECIPE].out / stick.IMAGE
    say(f"write it to a stick: invoke flash --image {made} --to …")
    print(made)
    return ExitStatus.OK


def _layout(asked: Request, to: str) -> str:
    """``to`` itself, the text of a file of that name in the project, or the board file's layout."""
    if not to:
        return _of_board_file(asked)
    path = asked.project.root / to
    text = path.read_text().strip() if ":" not in to and path.is_file() else to
    text = text.removeprefix("blkdevparts=")
    if ":" not in text or "(" not in text:
        raise InputError(f"--to: expected blkdevparts such as mmcblk0:1536K(uboot),…, found {text[:80]!r}")
    return text


def _split(asked: Request) -> Split | None:
    """Who has which memory by the board file. Raises ``InputError`` for what cannot be."""
    from boardwright.layout import split_rules

    return split_rules.resolve(asked.context.board.memory)


def _of_board_file(asked: Request) -> str:
    from boardwright.image.names import has_no_table

    if not has_no_table(asked.context.board):
        raise InputError(
            f"--to: expected the new layout, mmcblk0:1536K(uboot),…; {asked.board_name} has a GPT",
            hint="--board maix-iv takes the layout of its board file",
        )
    from boardwright.kinds import emmc
    from boardwright.layout import blkdevparts

    table = emmc.table(asked.context)
    return blkdevparts.text(table.partitions, table.device or "")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _confirmed() -> bool:
    import sys

    if not sys.stdin.isatty():
        raise InputError("expected a terminal to ask at", hint="add --yes, or --dry-run to look only")
    print("type yes to go on: ", end="", flush=True)
    return sys.stdin.readline().strip() == "yes"
