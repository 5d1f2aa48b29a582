"""The files that locks name, as they are kept: by SHA-256, verified when used.

``<directory>/<first two digits>/<sha256>`` is a whole file; ``….partial`` one that a later run continues;
``….verified`` records size, inode, mtime and ctime of the file when it was last hashed, so that it is
hashed again only after something touched it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from boardwright.build import digest
from boardwright.build.step import Download
from boardwright.errors import HostError, IntegrityError


def place(wanted: Download, directory: Path) -> Path:
    """Where a download is kept, whether or not it is there."""
    return directory / wanted.sha256[:2] / wanted.sha256


def verified(wanted: Download, directory: Path) -> Path:
    """The file of a download that :func:`fetch` brought.

    Raises ``HostError`` when it is not there, ``IntegrityError`` when its bytes are not the lock's.
    """
    path = place(wanted, directory)
    try:
        now = state(path)
    except FileNotFoundError:
        raise HostError(f"{name(wanted)} was not fetched", hint="run the build again") from None
    if now == _recorded(path):
        return path
    found = digest.of_file(path)
    if found != wanted.sha256:
        raise IntegrityError(
            f"{path} ({name(wanted)}): expected SHA-256 {wanted.sha256} as the lock has it, found {found}",
            hint="remove it; the next build fetches it again",
        )
    record(path, now)
    return path


def state(path: Path) -> list[int]:
    return digest.fingerprint(path.stat())


def _recorded(path: Path) -> object:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.with_suffix(".verified").read_text())
    return None


def record(path: Path, state: list[int]) -> None:
    with contextlib.suppress(OSError):
        path.with_suffix(".verified").write_text(json.dumps(state))


def kept(wanted: Download, directory: Path, progress: Callable[[str], None]) -> bool:
    """Whether the file is there and right; a damaged one is removed, and said to be."""
    path = place(wanted, directory)
    if not path.exists():
        return False
    try:
        verified(wanted, directory)
    except IntegrityError:
        progress(f"{name(wanted)} was damaged in {directory}: it is fetched again")
        path.unlink(missing_ok=True)
        return False
    return True


def elsewhere(wanted: Download) -> bool:
    """Whether a download does not come from a mirror."""
    return wanted.path.startswith("/") or "://" in wanted.path


def addresses(wanted: Download, mirrors: tuple[str, ...]) -> list[str]:
    """Where a download may come from, best first."""
    if wanted.path.startswith("/"):
        return [Path(wanted.path).as_uri()]
    return [wanted.path] if "://" in wanted.path else [f"{base}/{wanted.path}" for base in mirrors]


def name(wanted: Download) -> str:
    """``name version`` of a package, from its path (which lacks a version's epoch); else the file's name."""
    stem = Path(wanted.path).name.removesuffix(".deb")
    return " ".join(stem.split("_")[:2]) if wanted.path.endswith(".deb") else stem
