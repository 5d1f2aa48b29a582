"""The grammar of ``series``: what a line gets, and every way to write it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import InputError, InputErrors
from boardwright.patches.series import Absent, line_of, parse, plain, read

KNOWN = ["7.3", "6.12", "6.1", "5.10"]
TWO = ("0001-a.patch", "0002-b.patch")


def mistakes(text: str, patches: tuple[str, ...] = TWO) -> list[str]:
    """Every error as ``line: message``."""
    with pytest.raises(InputError) as caught:
        parse(text, "patches/kernel/t/series", patches, KNOWN)
    errors = caught.value.errors if isinstance(caught.value, InputErrors) else [caught.value]
    assert all(error.place and error.place.file == "patches/kernel/t/series" for error in errors)
    return [f"{error.place.line if error.place else '?'}: {error.message}" for error in errors]


def test_without_sections_every_line_gets_every_patch_in_order() -> None:
    series = parse("# why\n\n0002-b.patch  # first, because\n0001-a.patch\n", "s", TWO, KNOWN)
    assert series.of("7.3") == series.of("5.10") == ("0002-b.patch", "0001-a.patch")


def test_sections_give_each_line_its_own_text() -> None:
    names = (*TWO, "0002-b.6.1.patch")
    text = "[7.3 6.12]\n0001-a.patch\n0002-b.patch\n[6.1]\n0001-a.patch\n0002-b.6.1.patch\n"
    series = parse(text, "s", names, KNOWN)
    assert series.of("6.12") == TWO
    assert series.of("6.1") == ("0001-a.patch", "0002-b.6.1.patch")


def test_patches_before_any_section_come_first_for_every_line() -> None:
    series = parse("0001-a.patch\n[6.1]\n0002-b.patch\n", "s", TWO, KNOWN)
    assert series.of("6.1") == TWO
    assert series.of("7.3") == ("0001-a.patch",)


def test_a_line_may_have_a_reason_instead_of_patches() -> None:
    series = parse("[7.3 6.12]\n0001-a.patch\n0002-b.patch\n[6.1 5.10]\nnone: no driver\n", "s", TWO, KNOWN)
    assert series.of("5.10") == Absent("no driver")
    assert series.lines["6.1"] == Absent("no driver")


def test_a_line_that_is_not_declared_is_an_error_with_the_way_out() -> None:
    series = parse("[7.3]\n0001-a.patch\n0002-b.patch\n", "patches/kernel/t/series", TWO, KNOWN)
    with pytest.raises(InputError, match=r"expected patches or a reason for line 6\.1") as caught:
        series.of("6.1")
    assert "[6.1]" in (caught.value.hint or "")
    assert caught.value.place is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[6.2]\n0001-a.patch\n0002-b.patch\n", ["1: there is no source line '6.2'"]),
        ("[]\n0001-a.patch\n0002-b.patch\n", ["1: expected a section such as [7.3 6.12], found '[]'"]),
        ("[7.3\n0001-a.patch\n0002-b.patch\n", ["1: expected a section such as [7.3 6.12], found '[7.3'"]),
        (
            "[7.3]\n0001-a.patch\n[6.1 7.3]\n0002-b.patch\n",
            ["3: line 7.3 stands in the section of line 1 already"],
        ),
        ("[7.3 7.3]\n0001-a.patch\n0002-b.patch\n", ["1: line 7.3 stands in the section of line 1 already"]),
        (
            "0001-a.patch\n0003-c.patch\n0002-b.patch\n",
            ["2: there is no patch '0003-c.patch' in patches/kernel/t"],
        ),
        ("[7.3]\n0001-a.patch\n", ["0: 0002-b.patch stands in no section"]),
        ("0001-a.patch\n0002-b.patch\n0001-a.patch\n", ["3: 0001-a.patch stands in line 1 already"]),
        ("0001-a.patch\n[7.3]\n0002-b.patch\n0001-a.patch\n", ["4: 0001-a.patch stands in line 1 already"]),
        ("[7.3]\n0001-a.patch\n0002-b.patch\n[6.1]\nnone:\n", ["5: expected a reason after none:"]),
        ("[7.3]\n0001-a.patch\n0002-b.patch\n[6.1]\nnone\n", ["5: expected a reason after none:"]),
        (
            "[7.3]\n0001-a.patch\nnone: why\n[6.1]\n0002-b.patch\n",
            ["3: expected none: alone, found it together with patches of the section"],
        ),
        ("[7.3]\nnone: why\n0001-a.patch\n[6.1]\n0002-b.patch\n", ["3: expected no patch below none:"]),
        (
            "[7.3]\nnone: a\nnone: b\n[6.1]\n0001-a.patch\n0002-b.patch\n",
            ["3: expected one none: in a section, found a second"],
        ),
        (
            "0001-a.patch\n0002-b.patch\n[6.1]\nnone: why\n",
            ["4: expected none: alone, found it together with patches for every line"],
        ),
        ("none: why\n[6.1]\n0001-a.patch\n0002-b.patch\n", ["1: expected none: below a section"]),
        (
            "[7.3]\n0001-a.patch\n0002-b.patch\n[6.1]\n",
            ["4: expected patches or none: in section [6.1], found nothing"],
        ),
        (
            "0001-a.patch\n../0002-b.patch\n0002-b.patch\n",
            ["2: expected the name of a patch beside the series, found '../0002-b.patch'"],
        ),
        (
            "0001-a.patch\nREADME\n0002-b.patch\n",
            ["2: expected the name of a patch beside the series, found 'README'"],
        ),
        ("[9]\nnope.patch\n", [
            "1: there is no source line '9'",
            "2: there is no patch 'nope.patch' in patches/kernel/t",
            "0: 0001-a.patch stands in no section",
            "0: 0002-b.patch stands in no section",
        ]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(text: str, expected: list[str]) -> None:
    assert mistakes(text) == expected


def test_a_misspelt_line_or_patch_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        parse("[6.122]\n0001-a.patch\n0002-bb.patch\n", "s", TWO, KNOWN)
    hints = [error.hint for error in caught.value.errors]
    assert "did you mean '6.12'?" in hints
    assert "did you mean '0002-b.patch'?" in hints


def test_without_the_projects_lines_any_two_numbers_are_a_line() -> None:
    assert parse("[25.0]\n0001-a.patch\n", "s", ["0001-a.patch"]).of("25.0") == ("0001-a.patch",)
    with pytest.raises(InputError, match=r"expected source lines such as 7\.3, found 'trixie'"):
        parse("[trixie]\n0001-a.patch\n", "s", ["0001-a.patch"])


def test_a_topic_is_read_from_its_directory(tmp_path: Path) -> None:
    topic = tmp_path / "patches/kernel/radeon"
    topic.mkdir(parents=True)
    (topic / "0001-a.patch").touch()
    with pytest.raises(InputError, match="has no file patches/kernel/radeon/series"):
        read(tmp_path, "kernel", "radeon")
    (topic / "series").write_text("0001-a.patch\n")
    assert read(tmp_path, "kernel", "radeon").of("7.3") == ("0001-a.patch",)
    with pytest.raises(InputError, match="there is no patch topic 'radeom'") as caught:
        read(tmp_path, "kernel", "radeom")
    assert caught.value.hint == "did you mean 'radeon'?"


@pytest.mark.parametrize(
    ("version", "line"),
    [("7.3.2-1~bpo13+1", "7.3"), ("6.12.117-1", "6.12"), ("25.0.7-2", "25.0"), ("1:5.10-1", "5.10"),
     ("7.3~rc4-1~exp1", "7.3")],
)  # fmt: skip
def test_a_line_is_the_first_two_numbers_of_a_version(version: str, line: str) -> None:
    assert line_of(version) == line


def test_a_version_without_two_numbers_has_no_line() -> None:
    with pytest.raises(InputError, match="'20240101'"):
        line_of("20240101")


@given(st.lists(st.from_regex(r"[0-9]{4}-[a-z]{1,8}\.patch", fullmatch=True), unique=True))
def test_a_plain_series_reads_back(names: list[str]) -> None:
    assert parse(plain(names), "s", names).everywhere == tuple(names)


@given(st.text(alphabet="[]#: .7361-anoe\n", max_size=60))
def test_no_text_ends_in_anything_but_a_series_or_an_input_error(text: str) -> None:
    try:
        series = parse(text, "s", ["0001-a.patch"], KNOWN)
    except InputError:
        return
    for line, content in series.lines.items():
        assert line in KNOWN
        assert isinstance(content, Absent) or content
