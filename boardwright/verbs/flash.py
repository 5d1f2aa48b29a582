"""``invoke flash``: an image onto a disk, into a file or onto a board, read back.

With ``--json`` stdout is one object: ``outcome`` (``written``, ``refused`` for status 2, ``failed`` for 3 and
4, ``interrupted``), ``status``, and then either what was done or ``error`` and ``hint``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from boardwright.build.progress import short
from boardwright.build.store import cache_directory
from boardwright.errors import BoardwrightError, ExitStatus, InputError
from boardwright.flash import devices
from boardwright.flash.choose import Choice, choose, confirm, described, remote
from boardwright.flash.journal import journal
from boardwright.flash.medium import open_choice
from boardwright.flash.progress import Progress
from boardwright.flash.run import flash
from boardwright.flash.source import Image, find
from boardwright.schema.project import load_project
from boardwright.verbs import flash_remote
from boardwright.verbs.common import say
from boardwright.verbs.flash_request import Options, Written, image_path, read_back, typed


def flash_image(
    root: Path,
    board: str,
    variant: str,
    to: str,
    image: str,
    yes: bool,
    listing: bool,
    as_json: bool,
    *,
    loader: str = "",
    serve: str = "",
    power: str = "",
    coordinator: str = "",
) -> int:
    """0 written and read back, 2 refused, 3 the medium or host failed, 4 bytes are wrong, 130 interrupted."""
    if listing:
        return _list(as_json)
    options = Options(board, variant, to, image, yes, loader, serve, power, coordinator)
    try:
        report = _flash(root, options)
    except BoardwrightError as error:
        if not as_json:
            raise
        outcome = "refused" if error.exit_status == ExitStatus.INPUT else "failed"
        report = {"outcome": outcome, "status": int(error.exit_status)}
        report |= {"error": error.message, "hint": error.hint}
    except KeyboardInterrupt:
        say("\ninterrupted: nothing boots from there now; flash again and it goes on where it stopped")
        report = {"outcome": "interrupted", "status": int(ExitStatus.INTERRUPTED)}
    if as_json:
        print(json.dumps(report, indent=2))
    return int(report["status"])


def _flash(root: Path, options: Options) -> dict[str, Any]:
    declared = load_project(root).local().devices
    if far := remote(options.to, declared):
        written = flash_remote.write(root, options, far)
    else:
        image = find(image_path(root, options))
        written = _disk_or_file(
            image, options, choose(options.to, declared, devices.found(needed=image.bmap.image_size))
        )
    say(written.text)
    return {
        "outcome": "written",
        "status": 0,
        "image": str(written.image),
        "target": written.target,
        **written.done,
    }


def _disk_or_file(image: Image, options: Options, choice: Choice) -> Written:
    if choice.path == image.path.resolve():
        raise InputError(f"--to: {choice.path} is the image itself")
    confirm(choice, options.yes, None if options.yes else _ask(choice, image))
    record = journal(cache_directory() / "flash", choice, image.bmap)
    medium = open_choice(choice, image.bmap.image_size)
    try:
        done = flash(image, medium, record, Progress(), marks=choice.device is not None)
    finally:
        medium.close()
    row = _row(choice.device) if choice.device else {}
    return read_back(image, done, str(choice.path), {"path": str(choice.path), **row})


def _ask(choice: Choice, source: Image) -> str | None:
    if choice.device:
        lines = [f"{described(choice.device)} will be overwritten with {short(source.path)}. It holds:"]
        lines += [f"  {content}" for content in choice.device.contents or ("nothing that is known",)]
        what = "the end of its serial number" if choice.device.serial else "its name"
    else:
        lines = [f"{choice.path} will be overwritten with {short(source.path)}."]
        what = "its name"
    return typed(lines, what, choice.word) if choice.word else None


def _row(device: devices.Device) -> dict[str, Any]:
    return {"path": str(device.path), **asdict(device)}


def _list(as_json: bool) -> int:
    found = devices.found()
    if as_json:
        print(json.dumps([_row(device) for device in found], indent=2))
        return 0
    for device in found:
        print(described(device) + (", removable" if device.removable else ""))
        for content in device.contents:
            print(f"    {content}")
        for reason in device.refusals:
            print(f"    not written to: {reason}")
    return 0
