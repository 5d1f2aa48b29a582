"""SHA-256 over files, trees and JSON: what keys and store entries are made of."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec


def of_json(value: object) -> str:
    """SHA-256 of ``value`` as JSON with sorted keys and no blanks; file names count as their bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def of_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes. Raises ``OSError``."""
    with Path(path).open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Item(msgspec.Struct, frozen=True):
    """One name of a tree: ``kind`` is file, link or directory; ``digest`` of its bytes or its target."""

    path: str
    kind: str
    executable: bool
    size: int
    digest: str

    def as_row(self) -> list[object]:
        return [self.path, self.kind, int(self.executable), self.size, self.digest]


def walk(root: str | Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every name below ``root``, sorted, as its path relative to it and its ``lstat``.

    A file given as root yields itself under the name ''. Sockets, pipes and devices are skipped: neither
    a project nor a store entry can hold any.
    """
    base = os.fspath(root)
    info = os.lstat(base)
    if not stat.S_ISDIR(info.st_mode):
        yield "", info
        return
    yield from _walk_directory(base, "")


def _walk_directory(base: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(f"{base}/{prefix}" if prefix else base) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        info = entry.stat(follow_symlinks=False)
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if stat.S_ISDIR(info.st_mode):
            yield path, info
            yield from _walk_directory(base, path)
        elif stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
            yield path, info


def item(root: str | Path, path: str, info: os.stat_result) -> Item:
    """The item for one name that :func:`walk` yielded. Raises ``OSError``."""
    full = os.path.join(root, path) if path else os.fspath(root)  # noqa: PTH118 - hot: 40,000 names a root
    if stat.S_ISDIR(info.st_mode):
        return Item(path, "directory", False, 0, "")
    if stat.S_ISLNK(info.st_mode):
        return Item(path, "link", False, 0, os.readlink(full))  # noqa: PTH115
    return Item(path, "file", bool(info.st_mode & 0o100), info.st_size, of_file(full))


def items(root: str | Path) -> list[Item]:
    """Every name below ``root`` with its digest."""
    return [item(root, path, info) for path, info in walk(root)]


def fingerprint(info: os.stat_result) -> list[int]:
    """What changes when anybody writes to a file or puts another in its place: no bytes are read."""
    return [info.st_size, info.st_ino, info.st_mtime_ns, info.st_ctime_ns]


def of_tree(root: str | Path) -> str:
    """Digest of a file or tree: names, executable bits, link targets and bytes; no times, no owners."""
    return of_json([entry.as_row() for entry in items(root)])
