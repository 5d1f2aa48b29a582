"""A series rewritten for one line: that line gets what it should, every other keeps what it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from boardwright.patches.sections import rewritten
from boardwright.patches.series import parse

KNOWN = ["7.3", "6.12", "6.1", "5.10"]
FILES = [f"000{number}-x.patch" for number in range(1, 5)]
NAMES = st.lists(st.sampled_from(FILES), min_size=1, unique=True)


def rewrite(text: str, line: str, *names: str) -> str:
    series = parse(text, "series", FILES, KNOWN, stray=True)
    return rewritten(text, series, line, names, KNOWN)


def test_a_line_leaves_a_shared_section_for_its_own() -> None:
    text = "# Why.\n\n[7.3 6.12 6.1]\n# first\n0001-x.patch\n\n[5.10]\nnone: old\n"
    assert rewrite(text, "6.12", "0001-x.patch", "0002-x.patch") == (
        "# Why.\n\n[7.3 6.1]\n# first\n0001-x.patch\n\n"
        "[6.12]\n0001-x.patch\n0002-x.patch\n\n[5.10]\nnone: old\n"
    )


def test_a_line_joins_the_section_that_says_the_same() -> None:
    text = "[7.3 6.1]\n0001-x.patch\n\n[6.12]\n0002-x.patch\n"
    assert rewrite(text, "6.12", "0001-x.patch") == "[7.3 6.12 6.1]\n0001-x.patch\n"


def test_a_reason_gives_way_to_patches() -> None:
    text = "[7.3]\n0001-x.patch\n\n[6.1]\nnone: not yet\n"
    assert rewrite(text, "6.1", "0002-x.patch") == "[7.3]\n0001-x.patch\n\n[6.1]\n0002-x.patch\n"


def test_patches_of_every_line_move_into_a_section_when_one_line_differs() -> None:
    text = "# Why.\n0001-x.patch\n"
    assert rewrite(text, "5.10", "0002-x.patch") == (
        "# Why.\n\n[7.3 6.12 6.1]\n0001-x.patch\n\n[5.10]\n0002-x.patch\n"
    )


def test_what_stays_the_same_stays_as_it_is_written() -> None:
    text = "[7.3]\n\n\n0001-x.patch   # odd\n"
    assert rewrite(text, "7.3", "0001-x.patch") == text


@st.composite
def series_text(draw: st.DrawFn) -> str:
    lines = draw(st.permutations(KNOWN))
    cuts = sorted(draw(st.sets(st.integers(1, 3))))
    rows = draw(NAMES) if draw(st.booleans()) else []
    above = list(rows)
    for start, end in zip([0, *cuts], [*cuts, draw(st.integers(3, 4))], strict=True):
        if start >= end:
            continue
        names = [name for name in draw(NAMES) if name not in above]
        rows += ["", f"[{' '.join(lines[start:end])}]", "# a comment"]
        rows += names or ([] if above else ["none: because"])
    return "\n".join([*rows, ""])


@given(series_text(), st.sampled_from(KNOWN), NAMES)
def test_only_the_one_line_changes(text: str, line: str, names: list[str]) -> None:
    before = parse(text, "series", FILES, KNOWN, stray=True)
    after = parse(rewrite(text, line, *names), "series", FILES, KNOWN, stray=True)
    assert after.of(line) == tuple(names)
    for other in KNOWN:
        if other != line and (before.everywhere or before.section(other)):
            assert after.of(other) == before.of(other)
        elif other != line:
            assert after.section(other) is None
