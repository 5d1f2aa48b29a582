"""``recipes/<name>.lock.json``: written by ``invoke lock``, read by everything else."""

from __future__ import annotations

from typing import Literal

from boardwright.schema.board import Record


class LockedFile(Record):
    """One file of a Debian mirror."""

    package: str
    version: str
    architecture: str
    """``amd64``, ``arm64``, ``all``, or ``source`` for a file of a source package."""
    path: str
    """Relative to the mirror: ``pool/main/…``."""
    size: int
    sha256: str


class Lock(Record):
    """Everything a recipe takes from a mirror, exactly."""

    version: Literal[1]
    recipe: str
    request: str
    """Digest of what the recipe asked for (suite, packages); when it differs the lock is stale."""
    epoch: int
    """Seconds since 1970: the date of the newest Release file used; the SOURCE_DATE_EPOCH of its steps."""
    files: list[LockedFile]
