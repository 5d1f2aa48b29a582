"""``invoke store``: what the cache holds, and what may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builds import Bench, step

from boardwright.build import locks
from boardwright.build.collect import collect, size_on_disk, usage


@pytest.fixture
def cache(bench: Bench) -> Bench:
    """The root, three steps, their kept trees, downloads, compiler cache and index, used in this order."""
    names = ["a", "b", "c"]
    script = "head -c 1000000 /dev/urandom >/out/made"
    steps = [step(name, script, kept_tree=f"t{name}") for name in names]
    bench.build(*steps)
    places = {entry.description()["step"]: entry.directory / "state.json" for entry in bench.store.entries()}
    for number, name in enumerate(["tools", *names]):
        os.utime(places[name], (1000 + number, 1000 + number))
    for number, name in enumerate(["trees/ta", "trees/tb", "trees/tc", "downloads", "ccache", "apt"]):
        (bench.cache / name).mkdir(exist_ok=True)
        (bench.cache / name / "file").write_bytes(b"x" * 50_000)
        os.utime(bench.cache / name, (2000 + number, 2000 + number))
    return bench


def _names(rows: object) -> list[str]:
    return [row.name for row in rows]  # type: ignore[attr-defined]


def test_everything_is_listed_least_recently_used_first(cache: Bench) -> None:
    rows = usage(cache.cache, cache.store)
    assert _names(rows) == ["tools", "a", "b", "c", "ta", "tb", "tc", "downloads", "ccache", "apt"]
    assert {row.name: row.kind for row in rows}["ta"] == "tree"
    assert all(row.bytes >= 50_000 for row in rows)


def test_no_more_is_removed_than_the_bound_asks(cache: Bench) -> None:
    total = sum(row.bytes for row in usage(cache.cache, cache.store))
    assert collect(cache.cache, cache.store, total) == []
    removed = collect(cache.cache, cache.store, total - 1)
    assert _names(removed) == ["tools"]
    assert _names(usage(cache.cache, cache.store))[0] == "a"


def test_downloads_go_last(cache: Bench) -> None:
    removed = collect(cache.cache, cache.store, 0)
    assert _names(removed) == ["tools", "a", "b", "c", "ta", "tb", "tc", "ccache", "apt", "downloads"]
    assert usage(cache.cache, cache.store) == []


def test_what_is_in_use_stays(cache: Bench) -> None:
    store = cache.store
    entry = next(entry for entry in store.entries() if entry.description()["step"] == "b")
    assert store.find(entry.key)
    held = [locks.use(cache.cache / name) for name in ("trees/tb", "downloads")]
    removed = collect(cache.cache, cache.store, 0)
    assert not {"b", "tb", "downloads"} & set(_names(removed))
    assert _names(usage(cache.cache, cache.store)) == ["b", "tb", "downloads"]
    for descriptor in held:
        assert descriptor is not None
        os.close(descriptor)


def test_damaged_entries_are_listed_and_can_go(cache: Bench) -> None:
    first, second, *_ = cache.store.entries()
    (first.directory / "entry.json").write_text("{")
    (second.directory / "state.json").unlink()
    assert "(damaged)" in _names(usage(cache.cache, cache.store))
    assert len(collect(cache.cache, cache.store, 0)) == 10


def test_what_the_killed_left_is_removed_first(cache: Bench) -> None:
    left = cache.cache / "store/making/dead.x"
    (left / "out").mkdir(parents=True)
    collect(cache.cache, cache.store, 1 << 40)
    assert not left.exists()


def test_holes_do_not_count(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 30)
    assert size_on_disk(tmp_path / "hole") < 1 << 20
    assert size_on_disk(tmp_path / "nothing") == 0


def test_an_empty_cache_holds_nothing(tmp_path: Path) -> None:
    from boardwright.build.store import Store

    assert usage(tmp_path, Store(tmp_path / "store")) == []
    assert collect(tmp_path, Store(tmp_path / "store"), 0) == []
