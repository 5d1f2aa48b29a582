"""Journals replayed before a plan is made, as any start of the board replays them.

A board is mostly switched off by its plug. Then a file system's bitmaps do not say what is used, all of it
would count as in use, and a partition that has plenty of room could not be made smaller. ``e2fsck`` with
``journal_only`` does what the kernel does when it mounts (e2fsck(8)): a power cut meanwhile leaves the
journal to be replayed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from . import ext4
from .medium import Medium, last_words, run
from .parts import Part, Refused
from .survey import reader

_REPLAY = ("e2fsck", "-p", "-E", "journal_only")


def unsettled(medium: Medium, parts: Iterable[Part]) -> list[tuple[int, str]]:
    """Number and name of each partition whose ext4 has a journal to be replayed. Only reads."""
    found = []
    for number, part in enumerate(parts, start=1):
        superblock = ext4.superblock(reader(medium, part))
        if superblock is not None and not superblock.clean:
            found.append((number, part.name))
    return found


def replay(device: Path, number: int, name: str) -> str:
    """Replay the journal in partition ``number``; what is to be said of it. Nobody has ``device`` open.

    Raises :class:`Refused` with e2fsck's words when it cannot.
    """
    node = Path(f"{device}{'p' if device.name[-1].isdigit() else ''}{number}")
    status, output = run([*_REPLAY, str(node)])
    if status == 0:
        return f"{name} was not unmounted in order; its journal is replayed, as at any start"
    if status == 1:
        return f"{name} was not unmounted in order, and e2fsck mended it: {last_words(output)}"
    raise Refused(
        f"{name}: its journal cannot be replayed, e2fsck of {node} ended with {status}: {last_words(output)}",
        hint="start the board's own system, which checks it, and shut it down in order",
    )
