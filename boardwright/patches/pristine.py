"""The files of a line's source that patches touch, kept so that a look at them takes no unpacking.

``<cache>/sources/<recipe>-<digest>/`` is made from one lock: ``whole`` names the directories that are kept,
each with all its files (so the next patch of a driver finds its files there), in ``files/``. Another
directory asked for means one more pass over the archive, some seconds to half a minute.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import digest, locks
from boardwright.build.step import Download
from boardwright.patches.archive import Member, directory, members, text
from boardwright.patches.lines import Line

FORMAT = 1

Note = Callable[[str], None]


@dataclass(frozen=True)
class Pristine:
    """Files of one line's source, below ``files``: whole directories."""

    line: Line
    files: Path
    held: int | None = None
    """A lock, for as long as the process lives."""

    def read(self, path: str) -> str | None:
        """The text of a file of a kept directory; None when the source has no such file."""
        try:
            return text((self.files / path).read_bytes())
        except FileNotFoundError:
            return None

    def executable(self, path: str) -> bool:
        return os.access(self.files / path, os.X_OK)


def pristine(line: Line, paths: Iterable[str], cache: Path, note: Note) -> Pristine:
    """The source of ``line`` with at least ``paths``; fetched and unpacked as far as that is needed.

    Raises ``HostError`` without a mirror or a program that unpacks, ``IntegrityError`` for wrong bytes.
    """
    wanted = frozenset(directory(path) for path in paths)
    place = cache / "sources" / _identity(line)
    place.mkdir(parents=True, exist_ok=True)
    # Kept until the process ends: `invoke store --gc` leaves what is used alone.
    held = locks.use(place)
    if not wanted <= _whole(place):
        with locks.exclusive(place / "lock", waiting=lambda who: note(f"waiting for {who}")):
            missing = wanted - _whole(place)
            if missing:
                note(f"unpacking {line.recipe.source.debian} {line.version}: {len(missing)} directories")
                _unpack(line, missing, place, cache, note)
    os.utime(place)
    return Pristine(line, place / "files", held)


def _identity(line: Line) -> str:
    record = {"format": FORMAT, "files": {Path(f.path).name: f.sha256 for f in line.source}}
    return f"{line.recipe.recipe}-{digest.of_json(record)[:16]}"


def _whole(place: Path) -> frozenset[str]:
    try:
        return frozenset((place / "whole").read_text().splitlines())
    except FileNotFoundError:
        return frozenset()


def _unpack(line: Line, directories: frozenset[str], place: Path, cache: Path, note: Note) -> None:
    """Add directories; they count from the moment when all their files are on the disk."""
    for member in members(downloaded(line, cache, note), lambda path: directory(path) in directories):
        if not member.link:
            _write(place / "files" / member.path, member)
    os.sync()
    names = sorted(directories | _whole(place))
    temporary = place / "whole.new"
    temporary.write_text("".join(f"{name}\n" for name in names))
    temporary.replace(place / "whole")


def _write(path: Path, member: Member) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(member.content)
    path.chmod(0o755 if member.executable else 0o644)


def downloaded(line: Line, cache: Path, note: Note) -> dict[str, Path]:
    """The files of a line's source: name in the pool to verified file. Raises ``HostError``."""
    from boardwright.build.fetch import fetch, verified
    from boardwright.build.mirror import mirrors

    directory = cache / "downloads"
    wanted: tuple[Download, ...] = line.source
    fetch(wanted, directory, mirrors(), note)
    return {Path(file.path).name: verified(file, directory) for file in wanted}
