"""What every way of ``invoke flash`` needs: the command line, the image, the confirmation, the last word."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from boardwright.build.progress import short
from boardwright.errors import InputError
from boardwright.flash.choose import agree
from boardwright.flash.run import Done
from boardwright.flash.source import Image
from boardwright.image import names
from boardwright.verbs.common import request, say


@dataclass(frozen=True, slots=True)
class Options:
    """The command line. ``loader`` is rockusb's; ``serve``, ``power`` and ``coordinator`` are a board's."""

    board: str = ""
    variant: str = ""
    to: str = ""
    image: str = ""
    yes: bool = False
    loader: str = ""
    serve: str = ""
    power: str = ""
    coordinator: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """``image``: what was written. ``done``: figures for ``--json``. ``text``: what a person is told."""

    image: Path
    done: dict[str, Any]
    text: str
    target: dict[str, Any] = field(default_factory=dict)


def image_path(root: Path, options: Options) -> Path:
    """``--image``, or that of ``out/<board>/``; of two, the one that need not be unpacked."""
    if options.image:
        return Path(options.image)
    asked = request(root, options.board, options.variant)
    if names.has_no_table(asked.context.board):
        raise InputError(
            f"{asked.board_name} has no disk image: what its maker's boot chain needs is not ours to write",
            hint="--to axdl: writes the maker's package with our root, invoke repartition a board that runs",
        )
    out = asked.out
    for pattern in ("*.img", "*.img.zst", "*.img.xz"):
        if images := sorted(out.glob(pattern)):
            return images[0]
    raise InputError(f"there is no image in {short(out)}", hint="invoke build makes it")


def typed(lines: list[str], what: str, word: str) -> str | None:
    """What was typed after ``lines`` were read; None when there is no terminal to be asked at."""
    if not sys.stdin.isatty():
        return None
    for line in lines:
        say(line)
    print(f"Type {what}, {word}, to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def agreed(options: Options, declared: bool, lines: list[str], what: str, word: str) -> None:
    """The confirmation of what is no disk of this host. Raises ``InputError``."""
    undeclared = "" if declared else options.to
    agree(word, undeclared, options.yes, None if options.yes else typed(lines, what, word))


def read_back(image: Image, done: Done, name: str, target: dict[str, Any]) -> Written:
    """The end of a flash that was read back; ``name``: of what was written to."""
    text = (
        f"{short(image.path)} is on {name}, read back: {done.mapped_bytes / 1e6:.0f} MB "
        f"in {done.write_seconds:.1f} + {done.verify_seconds:.1f} s"
    )
    if done.rewritten:
        text += f"; {done.rewritten} ranges had to be written twice: do not trust this card for long"
    return Written(image.path, {"read_back": True, **asdict(done)}, text, target)
