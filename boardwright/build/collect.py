"""What the cache holds, and keeping it within a bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from boardwright.build.store import Store, remove_tree


@dataclass(frozen=True, slots=True)
class Usage:
    """One thing in the cache: its bytes on disk, and the time it was last used (seconds since 1970)."""

    kind: str
    name: str
    bytes: int
    used: float
    path: Path


def size_on_disk(path: Path) -> int:
    """Bytes a file or tree occupies; holes do not count."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_blocks * 512
    return path.lstat().st_blocks * 512 + sum(size_on_disk(child) for child in path.iterdir())


def usage(cache: Path, store: Store) -> list[Usage]:
    """Everything in the cache, least recently used first."""
    found = [
        Usage("step", entry.description()["step"], size_on_disk(entry.directory), _used(entry.directory), entry.directory)
        for entry in store.entries()
    ]
    for kind, directory in (("download", "downloads"), ("tree", "trees"), ("compiler cache", "ccache"), ("index", "apt")):
        path = cache / directory
        if path.exists():
            found.append(Usage(kind, directory, size_on_disk(path), path.stat().st_mtime, path))
    return sorted(found, key=lambda row: row.used)


def _used(directory: Path) -> float:
    return (directory / "state.json").stat().st_mtime


def collect(cache: Path, store: Store, bound: int) -> list[Usage]:
    """Remove the least recently used until at most ``bound`` bytes remain; what was removed.

    Store entries and kept trees go by age; downloads go last and all together, because a lock may name a
    package that no mirror has any more. An entry another process is making or using is left alone.
    """
    rows = usage(cache, store)
    total = sum(row.bytes for row in rows)
    removed = []
    for row in sorted(rows, key=lambda row: (row.kind == "download", row.used)):
        if total <= bound:
            break
        if row.kind == "step":
            store.remove(row.path.name)
        else:
            remove_tree(row.path)
        total -= row.bytes
        removed.append(row)
    return removed
