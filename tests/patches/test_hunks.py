"""Diffs are found in texts exactly as GNU patch finds them."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boardwright.patches.hunks import DiffError, apply, lines_of, locate, parse, region

LINES = st.lists(st.sampled_from(["a\n", "b\n", "}\n", "\n", "x = 1;\n", "y = 2;\n"]), max_size=25)


def diff(before: str, after: str, context: int = 3) -> str:
    rows = difflib.unified_diff(lines_of(before), lines_of(after), "a/f", "b/f", n=context)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def patched(text: str, patch: str, directory: Path) -> str | None:
    """What ``patch --fuzz=0`` makes of it; None when it refuses."""
    (directory / "f").write_bytes(text.encode())
    done = subprocess.run(
        ["patch", "-p1", "-N", "--fuzz=0", "-r", "-", "--no-backup-if-mismatch", "--batch"],
        cwd=directory, input=patch.encode(), capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        return None
    return (directory / "f").read_bytes().decode() if (directory / "f").exists() else ""


def ours(text: str, patch: str) -> str | None:
    result, outcomes = apply(parse(patch).files[0], text)
    return (result or "") if all(outcome.state == "applies" for outcome in outcomes) else None


@given(LINES, LINES)
def test_a_diff_of_two_texts_turns_one_into_the_other(before: list[str], after: list[str]) -> None:
    one, other = "".join(before), "".join(after)
    if one != other:
        assert ours(one, diff(one, other)) == other


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@settings(max_examples=300)
@given(before=LINES, after=LINES, other=LINES, place=st.integers(0, 25))
def test_on_a_source_that_moved_the_outcome_is_that_of_gnu_patch(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    after: list[str],
    other: list[str],
    place: int,
) -> None:
    if before == after or not before or not after:
        return
    text = diff("".join(before), "".join(after))
    moved = "".join([*before[:place], *other[:4], *before[place:]])
    directory = tmp_path_factory.mktemp("gnu")
    assert ours(moved, text) == patched(moved, text, directory)


def test_a_text_without_a_last_line_feed_is_kept_so() -> None:
    assert ours("a\nb", diff("a\nb", "a\nc")) == "a\nc"
    assert ours("a\nb", diff("a\nb", "a\nb\n")) == "a\nb\n"


def test_a_removed_line_that_looks_like_a_header_is_none() -> None:
    before, after = "x\n-- a/f\n++ b/f\ny\n", "x\ny\n"
    assert ours(before, diff(before, after)) == after
    assert len(parse(diff(before, after)).files) == 1


def test_offsets_are_told_and_fuzz_is_not_applied() -> None:
    before = "".join(f"line {n}\n" for n in range(30))
    patch = diff(before, before.replace("line 15\n", "new\n"))
    [hunk] = parse(patch).files[0].hunks
    moved = "more\n" * 4 + before
    found = locate(hunk, lines_of(moved))
    assert found is not None
    assert (found.offset, found.fuzz) == (4, 0)
    text, [outcome] = apply(parse(patch).files[0], before.replace("line 12\n", "other\n"))
    assert outcome.state == "fuzz"
    assert outcome.found is not None
    assert outcome.found.fuzz == 1
    assert "new" not in (text or "")


def test_a_hunk_whose_result_is_there_is_already_applied() -> None:
    before = "".join(f"line {n}\n" for n in range(30))
    after = before.replace("line 15\n", "new\n")
    _, [outcome] = apply(parse(diff(before, after)).files[0], after)
    assert outcome.state == "already"


def test_a_created_file_must_not_be_there_and_a_removed_one_is_gone() -> None:
    patch = "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert apply(parse(patch).files[0], None)[0] == "one\ntwo\n"
    assert apply(parse(patch).files[0], "one\ntwo\n")[1][0].state == "already"
    assert apply(parse(patch).files[0], "other\n")[1][0].state == "conflict"
    gone = "--- a/old.c\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
    assert apply(parse(gone).files[0], "one\ntwo\n")[0] is None
    assert apply(parse(gone).files[0], None)[1][0].state == "already"


def test_the_region_of_a_failed_hunk_is_where_its_rare_lines_are() -> None:
    source = (
        ["}\n"] * 50 + ["start\n", "  alpha();\n", "  beta(7);\n", "  gamma();\n", "end\n"] + ["}\n"] * 50
    )
    before = "start\n  alpha();\n  beta();\n  gamma();\nend\n"
    [hunk] = parse(diff(before, before.replace("gamma()", "delta()"))).files[0].hunks
    assert region(hunk, source) == (51, 5)
    assert region(hunk, ["nothing\n"] * 9) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Subject: x\n\nnothing\n", "no file header"),
        ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n", "line 3: the hunk is shorter"),
        ("--- a/f\n+++ b/f\nnothing\n", "no hunk"),
        ("--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n", "not a path inside the source"),
        ("rename from a\nrename to b\n", "line 1: only plain unified diffs"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n", "changes nothing"),
    ],
)
def test_what_is_no_diff_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DiffError, match=message):
        parse(text)
