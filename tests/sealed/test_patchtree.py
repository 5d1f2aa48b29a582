"""A kept tree gives what a clean build gives, whatever happened before, and rebuilds only what changed."""

from __future__ import annotations

import difflib
import os
import shutil
from pathlib import Path

import pytest

from boardwright.sealed import patchtree
from boardwright.sealed.patchtree import PatchError

pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")

RING = "".join(f"line {number}\n" for number in range(1, 31))
SOURCE = {"drivers/ring.c": RING, "drivers/fence.c": "fence\n", "Makefile": "obj-y := ring.o\n"}
OLD = 1_000_000_000.0


def diff(path: str, before: str | None, after: str | None) -> str:
    """A patch of one file, as git format-patch writes it; None is a file that does not exist."""
    return "".join(
        difflib.unified_diff(
            (before or "").splitlines(keepends=True),
            (after or "").splitlines(keepends=True),
            f"a/{path}" if before is not None else "/dev/null",
            f"b/{path}" if after is not None else "/dev/null",
        )
    )


class Bench:
    """A kept tree and a series, with the moves of the kernel step."""

    def __init__(self, root: Path) -> None:
        self.tree = root / "tree"
        self.patches = root / "patches"
        self.stage = root / "work/stage"
        self.tree.mkdir()
        self.patches.mkdir()

    def topic(self, name: str, **patches: str) -> str:
        directory = self.patches / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / "series").write_text("".join(f"{patch}.patch\n" for patch in patches))
        for patch, text in patches.items():
            (directory / f"{patch}.patch").write_text(text)
        return name

    def unpack(self) -> None:
        for path, text in SOURCE.items():
            file = self.tree / "src" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            os.utime(file, (OLD, OLD))
        (self.tree / "build").mkdir()

    def build(self, *topics: str, identity: str = "v1") -> list[str]:
        """One build; returns the files that were written, which make compiles again."""
        if not patchtree.open_tree(self.tree, identity):
            self.unpack()
        written = patchtree.apply(self.tree, self.patches, topics, self.stage)
        patchtree.close_tree(self.tree)
        return written

    def sources(self) -> dict[str, str]:
        root = self.tree / "src"
        return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}

    def read(self, path: str) -> str:
        return (self.tree / "src" / path).read_text()

    def time(self, path: str) -> float:
        return (self.tree / "src" / path).stat().st_mtime

    def kept(self) -> bool:
        return (self.tree / "state.json").exists()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- applying ----------------------------------------------------------------------------------------


def test_patches_apply_in_the_order_of_topics_and_series(bench: Bench) -> None:
    one = RING.replace("line 5\n", "first\n")
    two = one.replace("first\n", "second\n")
    bench.topic("radeon", **{"0001-b": diff("drivers/ring.c", RING, one)})
    bench.topic("pcie", **{"0001-a": diff("drivers/ring.c", one, two)})
    assert bench.build("radeon", "pcie") == ["drivers/ring.c"]
    assert bench.read("drivers/ring.c") == two


def test_no_topics_leave_the_source_as_it_is(bench: Bench) -> None:
    assert bench.build() == []
    assert bench.sources() == dict(sorted(SOURCE.items()))


def test_comments_and_blank_lines_in_a_series(bench: Bench) -> None:
    bench.topic("t", a=diff("Makefile", SOURCE["Makefile"], "changed\n"))
    (bench.patches / "t/series").write_text("# why\n\na.patch  # because\n")
    bench.build("t")
    assert bench.read("Makefile") == "changed\n"


def test_an_offset_is_allowed(bench: Bench) -> None:
    shifted = "line 0\nline 0\n" + RING
    bench.topic("t", a=diff("drivers/ring.c", shifted, shifted.replace("line 20\n", "changed\n")))
    bench.build("t")
    assert "changed\n" in bench.read("drivers/ring.c")


def test_created_removed_and_renamed_files(bench: Bench) -> None:
    rename = "diff --git a/Makefile b/Kbuild\nsimilarity index 100%\nrename from Makefile\nrename to Kbuild\n"
    patch = diff("drivers/new.c", None, "new\n") + diff("drivers/fence.c", "fence\n", None)
    bench.topic("t", a=patch, b=rename)
    bench.build("t")
    assert bench.sources() == {"Kbuild": SOURCE["Makefile"], "drivers/new.c": "new\n", "drivers/ring.c": RING}
    bench.build()
    assert bench.sources() == dict(sorted(SOURCE.items()))


def test_a_removed_line_that_looks_like_a_header(bench: Bench) -> None:
    bench.topic("t", a=diff("drivers/sql.c", None, "-- x/../../etc/passwd\nrest\n"))
    bench.topic("u", a=diff("drivers/sql.c", "-- x/../../etc/passwd\nrest\n", "rest\n"))
    bench.build("t", "u")
    assert bench.read("drivers/sql.c") == "rest\n"


# --- what is kept ------------------------------------------------------------------------------------


def test_the_same_series_again_writes_nothing(bench: Bench) -> None:
    bench.topic("t", a=diff("drivers/ring.c", RING, RING.replace("line 9\n", "changed\n")))
    bench.build("t")
    before = bench.time("drivers/ring.c")
    assert bench.build("t") == []
    assert bench.time("drivers/ring.c") == before


def test_only_files_whose_bytes_change_get_a_new_time(bench: Bench) -> None:
    ring = diff("drivers/ring.c", RING, RING.replace("line 9\n", "changed\n"))
    bench.topic("t", a=ring, b=diff("drivers/fence.c", "fence\n", "patched\n"))
    bench.build("t")
    ring_time, fence_time = bench.time("drivers/ring.c"), bench.time("drivers/fence.c")
    bench.topic("t", a=ring, b=diff("drivers/fence.c", "fence\n", "patched twice\n"))
    assert bench.build("t") == ["drivers/fence.c"]
    assert bench.time("drivers/ring.c") == ring_time
    assert bench.time("drivers/fence.c") > fence_time
    assert bench.time("Makefile") == OLD


def test_a_dropped_patch_brings_the_pristine_file_back_with_a_new_time(bench: Bench) -> None:
    bench.topic("t", a=diff("drivers/ring.c", RING, "other\n"), b=diff("drivers/new.c", None, "new\n"))
    bench.build("t")
    patched = bench.time("drivers/ring.c")
    assert sorted(bench.build()) == ["drivers/new.c", "drivers/ring.c"]
    assert bench.sources() == dict(sorted(SOURCE.items()))
    assert bench.time("drivers/ring.c") > patched
    assert not list((bench.tree / "orig").rglob("*.c"))


def test_new_times_are_later_than_the_last_build_even_if_the_clock_went_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.build()
    built = patchtree.time.time()
    monkeypatch.setattr(patchtree.time, "time", lambda: built - 86_400)
    bench.topic("t", a=diff("drivers/fence.c", "fence\n", "patched\n"))
    bench.build("t")
    assert bench.time("drivers/fence.c") > built


def test_another_source_or_tool_starts_from_an_empty_tree(bench: Bench) -> None:
    bench.build()
    (bench.tree / "build/ring.o").write_text("stale")
    bench.build(identity="v2")
    assert not (bench.tree / "build/ring.o").exists()


# --- kills -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["unpacked", "staged", "half written", "compiling"])
def test_a_killed_build_leaves_nothing_to_the_next(
    bench: Bench, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.topic("old", a=diff("drivers/ring.c", RING, "old\n"))
    bench.topic("new", a=diff("drivers/ring.c", RING, "new\n"), b=diff("drivers/fence.c", "fence\n", "new\n"))
    bench.build("old")
    (bench.tree / "build/ring.o").write_text("half an object")

    assert patchtree.open_tree(bench.tree, "v1")
    if moment == "staged":
        monkeypatch.setattr(patchtree, "synchronise", _killed)
    if moment == "half written":
        monkeypatch.setattr(patchtree, "_save", _killed)
    if moment in ("staged", "half written"):
        with pytest.raises(KeyboardInterrupt):
            patchtree.apply(bench.tree, bench.patches, ["new"], bench.stage)
    if moment == "compiling":
        patchtree.apply(bench.tree, bench.patches, ["new"], bench.stage)
    monkeypatch.undo()

    bench.build("new")
    assert not (bench.tree / "build/ring.o").exists()
    assert bench.sources() == {
        **dict(sorted(SOURCE.items())),
        "drivers/ring.c": "new\n",
        "drivers/fence.c": "new\n",
    }
    assert bench.kept()


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_kill_while_the_old_tree_is_removed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.build()
    monkeypatch.setattr(patchtree.shutil, "rmtree", _killed)
    with pytest.raises(KeyboardInterrupt):
        patchtree.open_tree(bench.tree, "v2")
    monkeypatch.undo()
    assert patchtree.open_tree(bench.tree, "v1") is False


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 0}', '{"format": 1}', "[]", '{"format": 1, "pristine": 3}']
)
def test_a_damaged_marker_is_no_marker(bench: Bench, text: str) -> None:
    bench.build()
    (bench.tree / "state.json").write_text(text)
    assert patchtree.open_tree(bench.tree, "v1") is False
    assert not (bench.tree / "src").exists()


def test_emptying_does_not_follow_symbolic_links(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (bench.tree / "link").symlink_to(outside)
    assert patchtree.open_tree(bench.tree, "v1") is False
    assert (outside / "precious").exists()


def test_apply_and_close_need_an_open_tree(bench: Bench) -> None:
    with pytest.raises(PatchError, match="is not open"):
        patchtree.apply(bench.tree, bench.patches, [], bench.stage)
    with pytest.raises(PatchError, match="is not open"):
        patchtree.close_tree(bench.tree)


# --- patches that do not apply -----------------------------------------------------------------------


def test_fuzz_is_refused_and_the_hunk_named(bench: Bench) -> None:
    stale = RING.replace("line 18\n", "other context\n")
    good = RING.replace("line 3\n", "changed\n")
    text = diff("drivers/ring.c", RING, good) + "".join(
        diff("drivers/ring.c", stale, stale.replace("line 20\n", "changed\n")).splitlines(keepends=True)[2:]
    )
    bench.topic("radeon", **{"0001-good": diff("drivers/fence.c", "fence\n", "x\n"), "0002-stale": text})
    with pytest.raises(PatchError) as error:
        bench.build("radeon")
    assert str(error.value) == (
        "radeon/0002-stale.patch: does not apply exactly (no fuzz is allowed)\n"
        "    drivers/ring.c: hunk 2 at line 17\n"
        "    It would apply with fuzz: refresh the patch against this source."
    )


def test_a_patch_that_does_not_fit_at_all(bench: Bench) -> None:
    bench.topic("t", a=diff("drivers/ring.c", "alpha\nbeta\n", "alpha\ngamma\n"))
    with pytest.raises(PatchError) as error:
        bench.build("t")
    assert "t/a.patch: does not apply exactly" in str(error.value)
    assert "drivers/ring.c: hunk 1 at line 1" in str(error.value)
    assert "fuzz: refresh" not in str(error.value)


def test_a_patch_that_is_already_applied(bench: Bench) -> None:
    patch = diff("drivers/ring.c", RING, RING.replace("line 9\n", "changed\n"))
    bench.topic("t", a=patch, b=patch)
    with pytest.raises(PatchError, match=r"t/b\.patch: is already in the source"):
        bench.build("t")


def test_a_failed_patch_leaves_the_kept_tree_usable(bench: Bench) -> None:
    bench.topic("t", a=diff("drivers/ring.c", RING, "patched\n"))
    bench.build("t")
    (bench.tree / "build/ring.o").write_text("object")
    bench.topic("t", a=diff("drivers/ring.c", "wrong\n", "patched\n"))
    with pytest.raises(PatchError):
        bench.build("t")
    bench.topic("t", a=diff("drivers/ring.c", RING, "repaired\n"))
    assert bench.build("t") == ["drivers/ring.c"]
    assert (bench.tree / "build/ring.o").exists()


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (diff("../../outside.c", None, "x\n"), "names 'b/../../outside.c'"),
        ("--- a/x\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "names '/etc/passwd'"),
        ("--- x.c\n+++ x.c\n@@ -1 +1 @@\n-a\n+b\n", "names 'x.c'"),
        ("rename from ../x\nrename to y\n", "names '../x'"),
        (diff("drivers/none.c", "x\n", "y\n"), "changes drivers/none.c, which the source does not have"),
        (diff("drivers/ring.c", None, "y\n"), "creates drivers/ring.c, which exists already"),
        ("Subject: nothing here\n", "no file header"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\n", "binary patches are not supported"),
        (diff("link/file.c", "x\n", "y\n"), "goes through a symbolic link"),
    ],
)
def test_patches_that_are_refused(bench: Bench, patch: str, words: str) -> None:
    bench.build()
    (bench.tree / "src/link").symlink_to("drivers")
    bench.topic("t", a=patch)
    with pytest.raises(PatchError) as error:
        bench.build("t")
    assert str(error.value).startswith("t/a.patch: ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ("a.patch\nb.patch\n", "patches/t/series:2: there is no patch b.patch in patches/t"),
        ("# x\n../a.patch\n", "patches/t/series:2: '../a.patch' is not the name of a file beside the series"),
        ("a.patch\na.patch\n", "patches/t/series:2: a.patch stands already in line 1"),
    ],
)
def test_a_series_that_is_wrong(bench: Bench, series: str, words: str) -> None:
    bench.topic("t", a=diff("drivers/fence.c", "fence\n", "x\n"))
    (bench.patches / "t/series").write_text(series)
    with pytest.raises(PatchError) as error:
        bench.build("t")
    assert str(error.value) == words


def test_a_topic_without_a_series(bench: Bench) -> None:
    with pytest.raises(PatchError, match="patches/nothing: no file named series"):
        bench.build("nothing")


# --- the program -------------------------------------------------------------------------------------


def test_the_program(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    tree = ["--tree", str(bench.tree)]
    assert patchtree.main(["open", *tree, "--identity", "v1"]) == 0
    bench.unpack()
    bench.topic("t", a=diff("drivers/fence.c", "fence\n", "x\n"))
    command = ["apply", *tree, "--patches", str(bench.patches), "--stage", str(bench.stage)]
    assert patchtree.main([*command, "t"]) == 0
    assert patchtree.main(["close", *tree]) == 0
    assert patchtree.main(["open", *tree, "--identity", "v1"]) == 0
    assert capsys.readouterr().out == "fresh\n  PATCHED drivers/fence.c\nkept\n"
    assert patchtree.main([*command, "missing"]) == 1
    assert capsys.readouterr().err == "error: patches/missing: no file named series\n"
