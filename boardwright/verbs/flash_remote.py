"""``invoke flash --to KIND:WHERE``: what is written by way of a board, its USB mode or a lab."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from boardwright.build.store import cache_directory
from boardwright.flash.choose import Remote
from boardwright.flash.journal import Journal
from boardwright.flash.progress import Progress
from boardwright.flash.run import flash
from boardwright.flash.source import Image, find
from boardwright.verbs.common import say
from boardwright.verbs.flash import Asked, Options, Written, image_path


def write(root: Path, options: Options, far: Remote, ask: Asked) -> tuple[Image, Written]:
    """The image that was written, and how. Raises as ``flash.run.flash`` does, and ``InputError``."""
    kinds: dict[str, Callable[[Path, Options, Remote, Asked], tuple[Image, Written]]] = {
        "rockusb": _rockusb,
    }
    return kinds[far.kind](root, options, far, ask)


def _rockusb(root: Path, options: Options, far: Remote, ask: Asked) -> tuple[Image, Written]:
    from boardwright.flash import rockusb

    image = find(image_path(root, options))
    board = rockusb.the_board(far.where)
    lines = [f"The eMMC of the board {board} will be overwritten with {image.path.name}."]
    ask(options, far.declared, lines, "where it is", board.location)
    loader = Path(options.loader) if options.loader else None
    medium = rockusb.opened(board, loader, image.bmap.image_size, say)
    try:
        done = flash(image, medium, record(image, "rockusb", board.location, str(medium.size)), Progress())
    finally:
        medium.close()
    target = {"kind": "rockusb", "location": board.location, "mode": board.mode, "size": medium.size}
    return image, Written(done, f"the board at {board.location}", target)


def record(image: Image, *target: str) -> Journal:
    """How far an earlier, broken flash of this image onto this target came."""
    name = hashlib.sha256("\0".join(target).encode()).hexdigest()[:32]
    return Journal(
        cache_directory() / f"flash/{name}.json", hashlib.sha256(repr(image.bmap).encode()).hexdigest()
    )
