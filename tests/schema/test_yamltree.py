"""YAML that cannot be laid over a project line by line: bytes, bombs, depth, places."""

from __future__ import annotations

import pytest

from boardwright.errors import InputError, InputErrors, Place
from boardwright.schema.yamltree import DEEPEST, MOST_BYTES, parse


def refused(data: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(data, "x.yaml")
    assert not isinstance(caught.value, InputErrors)
    return caught.value


def test_plain_values_are_those_of_yaml_1_2() -> None:
    text = b"{a: 1, b: -7, c: 0x10, d: 1.5, e: true, f: ~, g: text, h: '1', i: y, j: [1, [2]], k: 6.12.3}"
    assert parse(text, "x").value == {
        "a": 1,
        "b": -7,
        "c": 16,
        "d": 1.5,
        "e": True,
        "f": None,
        "g": "text",
        "h": "1",
        "i": "y",
        "j": [1, [2]],
        "k": "6.12.3",
    }


@pytest.mark.parametrize("word", ["on", "Off", "YES", "no"])
def test_a_word_that_some_read_as_a_boolean_is_refused_unless_quoted(word: str) -> None:
    assert "true or false to some readers" in refused(f"a: {word}".encode()).message
    assert parse(f"a: '{word}'".encode(), "x").value == {"a": word}


@pytest.mark.parametrize(
    "number", ["017", "0o17", "1:30", "1_000", "0b11", ".inf", ".nan", "2025-01-01", "9" * 30]
)
def test_a_number_that_is_another_to_some_readers_is_refused_unless_quoted(number: str) -> None:
    assert "not the same to all readers" in refused(f"a: {number}".encode()).message
    assert parse(f"a: '{number}'".encode(), "x").value == {"a": number}


def test_a_value_its_tag_does_not_fit_is_refused() -> None:
    refused(b"a: !!int abc")
    refused(b"a: !!binary aGVsbG8=")
    refused(b"a: !!set {b, c}")
    refused(b"a: !local b")


@pytest.mark.parametrize("data", [b"", b"\n", b"# only a comment\n"])
def test_an_empty_file_is_said_to_be_empty(data: bytes) -> None:
    assert refused(data).message == "the file is empty"


def test_bytes_that_are_no_utf_8_are_named_with_their_line() -> None:
    error = refused(b"a: 1\nb: caf\xe9\n")
    assert (error.message, error.place) == ("expected UTF-8, found the byte 0xe9", Place("x.yaml", 2))


def test_a_control_character_is_named_with_its_place() -> None:
    error = refused(b"a: 1\nb: \x07\n")
    assert error.message == "expected text, found the control character 0x07"
    assert error.place == Place("x.yaml", 2, 4)


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert parse(b"\xef\xbb\xbfa: 1", "x").value == {"a": 1}


def test_an_alias_is_followed() -> None:
    assert parse(b"a: &x [1]\nb: *x", "x").value == {"a": [1], "b": [1]}


def test_few_bytes_of_aliases_cannot_become_many_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "values, aliases followed," in refused("\n".join(lines).encode()).message


def test_an_alias_of_itself_is_refused() -> None:
    assert f"{DEEPEST} levels" in refused(b"a: &a [*a]").message


@pytest.mark.parametrize("depth", [DEEPEST + 2, 500, 100_000])
def test_depth_is_bounded(depth: int) -> None:
    refused(b"[" * depth + b"]" * depth)


def test_size_is_bounded() -> None:
    assert str(MOST_BYTES) in refused(b"a: " + b"x" * MOST_BYTES).message


def test_keys_must_be_text() -> None:
    for key in (b"1", b"true", b"~", b"[a]", b"{a: b}", b"on", b"1.5"):
        assert "a key that is text" in refused(b"? " + key + b"\n: 1\n").message


def test_every_mistake_of_a_file_is_reported_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        parse(b"a: on\nb: 017\na: 1\n", "x.yaml")
    assert [str(error.place) for error in caught.value.errors] == ["x.yaml:1:4", "x.yaml:2:4", "x.yaml:3:1"]


def test_places_of_keys_and_values() -> None:
    document = parse(b"a:\n  b: [1,\n    {c: 6.10}]\n", "x")
    assert document.place(("a", "b", 1, "c")) == Place("x", 3, 9)
    assert document.place(("a", "b", 1, "c"), key=True) == Place("x", 3, 6)
    assert document.place(("a", "b", 0)) == Place("x", 2, 7)
    assert document.place(("a", "nowhere")) == Place("x", 1, 1)
    assert document.place(("nowhere",)) == Place("x", 1, 1)
    assert document.source(("a", "b", 1, "c")) == "6.10"
    assert document.source(("a", "b", 7)) is None
