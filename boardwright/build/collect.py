"""What the cache holds, and keeping it within a bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import locks
from boardwright.build.store import Store, remove_tree
from boardwright.errors import IntegrityError


@dataclass(frozen=True, slots=True)
class Usage:
    """One thing in the cache: its bytes on disk, and the time it was last used (seconds since 1970)."""

    kind: str
    name: str
    bytes: int
    used: float
    path: Path


def size_on_disk(path: Path) -> int:
    """Bytes a file or tree occupies; holes do not count, nor does what is removed meanwhile."""
    try:
        total = path.lstat().st_blocks * 512
        if path.is_symlink() or not path.is_dir():
            return total
        return total + sum(size_on_disk(child) for child in path.iterdir())
    except FileNotFoundError:
        return 0


def usage(cache: Path, store: Store) -> list[Usage]:
    """Everything in the cache, least recently used first."""
    found = []
    for entry in store.entries():
        try:
            name = str(entry.description()["step"])
        except IntegrityError:
            name = "(damaged)"
        found.append(Usage("step", name, size_on_disk(entry.directory), entry.used(), entry.directory))
    for kind, path in _directories(cache):
        found.append(Usage(kind, path.name, size_on_disk(path), path.stat().st_mtime, path))
    return sorted(found, key=lambda row: row.used)


def _directories(cache: Path) -> Iterator[tuple[str, Path]]:
    for kind, name in (("tree", "trees"), ("source", "sources")):
        if (cache / name).is_dir():
            yield from ((kind, path) for path in sorted((cache / name).iterdir()) if path.is_dir())
    for kind, name in (("download", "downloads"), ("compiler cache", "ccache"), ("index", "apt")):
        if (cache / name).is_dir():
            yield kind, cache / name


def collect(cache: Path, store: Store, bound: int) -> list[Usage]:
    """Remove the least recently used until at most ``bound`` bytes remain; what was removed.

    Store entries and kept trees go by age; downloads go last and all together, because a lock may name a
    package that no mirror has any more. What another process is making or using is left alone.
    """
    store.sweep()
    rows = usage(cache, store)
    total = sum(row.bytes for row in rows)
    removed = []
    for row in sorted(rows, key=lambda row: (row.kind == "download", row.used)):
        if total <= bound:
            break
        if store.remove(row.path.name) if row.kind == "step" else _remove(row.path):
            total -= row.bytes
            removed.append(row)
    return removed


def _remove(directory: Path) -> bool:
    """Remove a directory unless somebody uses it; whether it is gone."""
    held = locks.claim(directory)
    if held is None:
        return False
    remove_tree(directory)
    os.close(held)
    return True
