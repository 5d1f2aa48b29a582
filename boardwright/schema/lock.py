"""``recipes/<name>.lock.json``: written by ``invoke lock``, read by everything else."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from boardwright.schema.board import Record
from boardwright.schema.words import (
    Architecture,
    Epoch,
    Name,
    PackageName,
    PackageVersion,
    PoolPath,
    Positive,
    Sha256,
)


class LockedFile(Record):
    """One file of a Debian mirror."""

    package: PackageName
    version: PackageVersion
    architecture: Architecture
    """``amd64``, ``arm64``, ``all``, or ``source`` for a file of a source package."""
    path: PoolPath
    """Relative to the mirror: ``pool/main/…``."""
    size: Positive
    """Bytes."""
    sha256: Sha256


class Lock(Record):
    """Everything a recipe takes from a mirror, exactly."""

    version: Literal[1]
    recipe: Name
    request: Sha256
    """Digest of what the recipe asked for (suite, packages); when it differs the lock is stale."""
    epoch: Epoch
    """Seconds since 1970: the date of the newest Release file used; the SOURCE_DATE_EPOCH of its steps."""
    files: list[LockedFile]


REQUESTED = ("suite", "architecture", "packages", "package", "source", "firmware", "libraries", "built")
"""The fields of a recipe that decide what is taken from a mirror."""


def has_lock(recipe: Record) -> bool:
    """Whether a recipe takes anything from a mirror."""
    return any(hasattr(recipe, name) for name in REQUESTED)


def request_digest(recipe: Record) -> str:
    """Digest of what a recipe asks a mirror for; a lock made for another request is stale."""
    asked = {name: getattr(recipe, name) for name in REQUESTED if getattr(recipe, name, None)}
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()
