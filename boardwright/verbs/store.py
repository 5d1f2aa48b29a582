"""``invoke store``."""

from __future__ import annotations

import json
import time

from boardwright.build.collect import Usage, collect, usage
from boardwright.build.progress import duration
from boardwright.build.store import cache_directory
from boardwright.errors import InputError
from boardwright.schema.units import Size
from boardwright.verbs.common import open_store


def store(gc: bool, max_size: str, as_json: bool) -> int:
    """Show what the cache holds, or with ``gc`` remove the least recently used above ``max_size``."""
    try:
        bound = Size.parse(max_size)
    except ValueError as error:
        raise InputError(f"--max-size: {error}") from error
    cache, entries = cache_directory(), open_store()
    rows = collect(cache, entries, bound) if gc else usage(cache, entries)
    if as_json:
        print(json.dumps([_row(row) for row in rows], indent=2))
        return 0
    for row in rows:
        age = duration(max(0.0, time.time() - row.used))
        done = "removed " if gc else ""
        print(f"{done}{row.kind:14} {row.name:20} {row.bytes / 2**20:9.1f} MiB  used {age} ago")
    total = sum(row.bytes for row in rows) / 2**20
    print(f"{'removed' if gc else 'in all'} {total:.1f} MiB {'from' if gc else 'in'} {cache}")
    return 0


def _row(row: Usage) -> dict[str, object]:
    return {"kind": row.kind, "name": row.name, "bytes": row.bytes, "used": row.used, "path": str(row.path)}
