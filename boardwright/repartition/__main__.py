"""``python3 -m repartition`` in the rescue system: settle, plan, run, resume, status. Standard library only.

Exit statuses: 0 done (or nothing to do), 1 refused (the reason on stderr), 2 the command line is wrong,
3 device or stick failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import execute, parts, report, settle, survey, ubootenv
from .medium import Medium
from .parts import Refused
from .plan import Plan, Rates, Request, Wanted, make

STICK = Path("/var/lib/repartition")
INIT = "/usr/lib/boardwright/rescue-init"


def main(words: list[str] | None = None) -> int:
    asked = _parser().parse_args(words)
    try:
        medium = Medium(asked.device, asked.stick)
        try:
            return int(asked.command(asked, medium))
        finally:
            medium.close()
    except Refused as refused:
        print(f"error: {refused.message}", file=sys.stderr)
        if refused.hint:
            print(f"hint: {refused.hint}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or asked.device}: {error.strerror}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="repartition", description="change the layout of an eMMC in place")
    parser.add_argument("--device", type=Path, default=Path("/dev/mmcblk0"))
    parser.add_argument("--stick", type=Path, default=STICK, help="directory for journal and copies")
    commands = parser.add_subparsers(required=True)
    for name, function, summary in (
        ("settle", _settle, "replay the journals of file systems that were not unmounted in order"),
        ("plan", _plan, "print what would be done"),
        ("run", _run, "do it"),
        ("resume", _resume, "go on with what was interrupted; nothing to do is no error"),
        ("status", _status, "tell whether something was interrupted"),
    ):
        command = commands.add_parser(name, help=summary)
        command.set_defaults(command=function)
        if name in ("plan", "run"):
            _add_request(command)
        if name == "settle":
            _add_place(command)
    return parser


def _add_request(command: argparse.ArgumentParser) -> None:
    _add_place(command)
    command.add_argument("--to", required=True, help="the new layout, as blkdevparts")
    command.add_argument("--root", default="", help="the new root= (default: as now)")
    command.add_argument("--mem", default="", help="the new mem= (default: as now)")
    command.add_argument("--format", action="append", default=[], metavar="PARTITION")
    command.add_argument("--delete", action="append", default=[], metavar="PARTITION")
    command.add_argument("--stick-root", required=True, help="root= of the rescue system")
    command.add_argument("--stick-init", default=INIT)
    command.add_argument("--room", type=int, default=None, help="bytes of the stick to use at most")
    command.add_argument("--json", action="store_true")


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default="mmcblk0", help="the device's name in blkdevparts")
    command.add_argument(
        "--environment", type=lambda text: int(text, 0), default=0x300000, help="byte of the block"
    )


def planned(asked: argparse.Namespace, medium: Medium) -> tuple[Request, Plan, dict[str, bytes]]:
    """Look at the device and make the plan. Changes nothing."""
    old = medium.read(asked.environment, ubootenv.SIZE)
    bootargs = ubootenv.read(old).get("bootargs", "")
    if f"root={asked.stick_root}" in bootargs.split():
        raise Refused(
            f"the environment's root= is the stick's ({asked.stick_root}): a run was interrupted",
            hint="`resume` goes on with it; it needs the stick it began with",
        )
    blocks = ubootenv.blocks(
        old,
        asked.to,
        asked.root or parts.root_of(bootargs),
        asked.stick_root,
        asked.stick_init,
        asked.mem,
    )
    before = parts.parse(parts.of_bootargs(bootargs), asked.name, medium.size)
    after = parts.parse(asked.to, asked.name, medium.size)
    if unknown := {*asked.format} - {part.name for part in after}:
        raise Refused(f"--format {' '.join(sorted(unknown))}: not in the new layout")
    room = medium.free if asked.room is None else min(asked.room, medium.free)
    request = Request(
        device_size=medium.size,
        held=survey.held(medium, before),
        wanted=tuple(Wanted(part, part.name in asked.format) for part in after),
        delete=frozenset(asked.delete),
        stick=room,
        atomic=blocks.atomic,
        reworded=asked.root not in ("", parts.root_of(bootargs))
        or asked.mem not in ("", ubootenv.memory_of(bootargs)),
        rates=Rates(),
    )
    forms = {"old": old, "reordered": blocks.reordered, "guard": blocks.guard, "new": blocks.new}
    return request, make(request), forms


def _nothing_pending(medium: Medium) -> None:
    if execute.pending(medium) is not None:
        raise Refused("a run was interrupted and is not finished", hint="`resume` goes on with it")


def _settle(asked: argparse.Namespace, medium: Medium) -> int:
    _nothing_pending(medium)
    bootargs = ubootenv.read(medium.read(asked.environment, ubootenv.SIZE)).get("bootargs", "")
    found = settle.unsettled(medium, parts.parse(parts.of_bootargs(bootargs), asked.name, medium.size))
    medium.close()  # and with it what is remembered of the device: e2fsck writes through its partitions
    for number, name in found:
        _say(settle.replay(asked.device, number, name))
    return 0


def _plan(asked: argparse.Namespace, medium: Medium) -> int:
    request, plan, _ = planned(asked, medium)
    if asked.json:
        print(json.dumps(plan.as_json()))
    else:
        print(report.text(request, plan), end="")
    return 0


def _run(asked: argparse.Namespace, medium: Medium) -> int:
    _nothing_pending(medium)
    _, plan, blocks = planned(asked, medium)
    journal = execute.start(
        medium, plan.operations, blocks, identity(asked.device, medium, asked.environment)
    )
    execute.Run(medium, journal, _say).all()
    _say("done: the new layout is written")
    return 0


def _resume(asked: argparse.Namespace, medium: Medium) -> int:
    journal = execute.pending(medium)
    if journal is None:
        _say("nothing to resume")
        return 0
    found = identity(asked.device, medium, int(journal.records[0]["device"]["environment"]))
    execute.resume(medium, journal, found, _say)
    _say("done: the new layout is written")
    return 0


def _status(_: argparse.Namespace, medium: Medium) -> int:
    journal = execute.pending(medium)
    if journal is None:
        print("nothing is interrupted")
        return 0
    run = execute.Run(medium, journal, _say)
    left = [o for n, o in enumerate(run.operations) if n not in run.done]
    following = f"the next: {left[0].says}" if left else "only the last record is missing"
    print(f"interrupted: {len(left)} of {len(run.operations)} steps are left, {following}")
    return 0


def identity(device: Path, medium: Medium, environment: int) -> dict[str, object]:
    """What tells one device from another: size, and the card's own number where the kernel shows one."""
    cid = Path(f"/sys/class/block/{device.name}/device/cid")
    number = cid.read_text().strip() if cid.exists() else ""
    return {"size": medium.size, "cid": number, "environment": environment}


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
