"""Sizes: what is read, what is written, and what is refused with which advice."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.schema.units import Size, SizeError


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_a_size_written_is_read_as_the_same_bytes(count: int) -> None:
    assert Size.parse(str(Size(count))) == count


@pytest.mark.parametrize(
    ("text", "count"), [("1B", 1), ("1KiB", 1024), ("512 MiB", 2**29), ("2GiB", 2**31), ("0B", 0)]
)
def test_units_are_binary(text: str, count: int) -> None:
    assert Size.parse(text) == count


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("512MB", "write 512MiB"),
        ("512M", "write 512MiB"),
        ("512mib", "write 512MiB"),
        ("4k", "write 4KiB"),
        ("8GB", "write 8GiB"),
        ("1.5GiB", "write 1536MiB"),
        ("0.1GiB", None),
        ("-1MiB", None),
        ("MiB", None),
        ("", None),
        ("5 parsecs", None),
        ("٣MiB", None),
        ("9999999999999999999B", None),
        (True, None),
        (None, None),
        (1.5, None),
        (512, "add a unit: B, KiB, MiB, GiB, TiB"),
    ],
)
def test_anything_else_is_refused_with_advice_where_there_is_one(text: object, advice: str | None) -> None:
    with pytest.raises(SizeError) as caught:
        Size.parse(text)
    assert caught.value.hint == advice
    assert caught.value.message.startswith("expected ")


@given(st.text())
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    with contextlib.suppress(SizeError):
        assert Size.parse(text) >= 0
