"""``invoke flash``: an image onto a disk or into a file, read back.

With ``--json`` stdout is one object: ``outcome`` (``written``, ``refused`` for status 2, ``failed`` for 3 and
4, ``interrupted``), ``status``, and then either what was done or ``error`` and ``hint``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from boardwright.build.progress import short
from boardwright.build.store import cache_directory
from boardwright.errors import BoardwrightError, ExitStatus, InputError
from boardwright.flash import devices
from boardwright.flash.choose import Choice, choose, confirm, described
from boardwright.flash.journal import journal
from boardwright.flash.medium import open_choice
from boardwright.flash.progress import Progress
from boardwright.flash.run import Done, flash
from boardwright.flash.source import Image, find
from boardwright.schema.project import load_project
from boardwright.verbs.common import request, say


def flash_image(
    root: Path, board: str, variant: str, to: str, image: str, yes: bool, listing: bool, as_json: bool
) -> int:
    """0 written and read back, 2 refused, 3 the medium or host failed, 4 bytes are wrong, 130 interrupted."""
    if listing:
        return _list(as_json)
    try:
        report = _flash(root, board, variant, to, image, yes)
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


def _flash(root: Path, board: str, variant: str, to: str, image: str, yes: bool) -> dict[str, Any]:
    source = find(Path(image) if image else _built(root, board, variant))
    size = source.bmap.image_size
    choice = choose(to, load_project(root).local().devices, devices.found(needed=size))
    if choice.path == source.path.resolve():
        raise InputError(f"--to: {choice.path} is the image itself")
    confirm(choice, yes, None if yes else _ask(choice, source))
    record = journal(cache_directory() / "flash", choice, source.bmap)
    medium = open_choice(choice, size)
    try:
        done = flash(source, medium, record, Progress(), marks=choice.device is not None)
    finally:
        medium.close()
    _tell(done, source, choice)
    return {
        "outcome": "written",
        "status": 0,
        "image": str(source.path),
        "target": _target(choice),
        **asdict(done),
    }


def _built(root: Path, board: str, variant: str) -> Path:
    """The image of ``out/<board>/``; the sparse one when both are there, as nothing has to be unpacked."""
    out = request(root, board, variant).out
    for pattern in ("*.img", "*.img.zst", "*.img.xz"):
        if images := sorted(out.glob(pattern)):
            return images[0]
    raise InputError(f"there is no image in {short(out)}", hint="invoke build makes it")


def _ask(choice: Choice, source: Image) -> str | None:
    if not choice.word or not sys.stdin.isatty():
        return None
    if choice.device:
        say(f"{described(choice.device)} will be overwritten with {short(source.path)}. It holds:")
        for content in choice.device.contents or ("nothing that is known",):
            say(f"  {content}")
        what = "the end of its serial number" if choice.device.serial else "its name"
    else:
        say(f"{choice.path} will be overwritten with {short(source.path)}.")
        what = "its name"
    print(f"Type {what}, {choice.word}, to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _tell(done: Done, source: Image, choice: Choice) -> None:
    text = (
        f"{short(source.path)} is on {choice.path}, read back: {done.mapped_bytes / 1e6:.0f} MB "
        f"in {done.write_seconds:.1f} + {done.verify_seconds:.1f} s"
    )
    if done.rewritten:
        text += f"; {done.rewritten} ranges had to be written twice: do not trust this card for long"
    say(text)


def _target(choice: Choice) -> dict[str, Any]:
    return {"path": str(choice.path)} | (_row(choice.device) if choice.device else {})


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
