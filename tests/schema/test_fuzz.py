"""A valid file changed at random is still valid, or answered with input errors; never with anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import DATA, project
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boardwright.errors import InputError, InputErrors
from boardwright.schema.board import Board
from boardwright.schema.convert import convert
from boardwright.schema.project import load_project
from boardwright.schema.validate import layout_faults, validate
from boardwright.schema.yamltree import parse

BOARD = (DATA / "project/boards/toy/board.yaml").read_bytes()
PIECES = [
    b"*",
    b"&a ",
    b"!!int ",
    b": ",
    b"- ",
    b"\n",
    b"\t",
    b"{",
    b"]",
    b"~",
    b"on",
    b"-1",
    b"0B",
    b"1e9",
    b'"',
]

changes = st.lists(
    st.tuples(
        st.integers(0, len(BOARD)),
        st.integers(0, 12),
        st.one_of(st.binary(max_size=4), st.sampled_from(PIECES)),
    ),
    min_size=1,
    max_size=4,
)


def judged(data: bytes) -> None:
    try:
        document = parse(data, "board.yaml")
        board = convert(document, Board)
        errors = list(layout_faults(board, document))
    except InputErrors as several:
        errors = several.errors
    except InputError as error:
        errors = [error]
    for error in errors:
        assert error.message
        assert error.place is not None
        assert error.place.file == "board.yaml"


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(changes)
def test_bytes_of_a_board_file(changed: list[tuple[int, int, bytes]]) -> None:
    data = BOARD
    for start, length, new in changed:
        data = data[:start] + new + data[start + length :]
    judged(data)


words = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["rest", "0B", "1MiB", "64GiB", "999999999999999TiB", "vfat", "boot", "", "..", "a/b"]),
)
values = st.recursive(
    words, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=5), v, max_size=2)
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for key, item in items for below in paths(item, (*path, key)))]


PATHS = [path for path in paths(parse(BOARD, "").value) if path]


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PATHS), values)
def test_any_value_in_any_place_of_a_board_file(path: tuple[str | int, ...], value: object) -> None:
    import json

    tree = parse(BOARD, "").value
    holder: object = tree
    for part in path[:-1]:
        holder = holder[part]  # type: ignore[index]
    holder[path[-1]] = value  # type: ignore[index]
    judged(json.dumps(tree).encode())


LOCK = "recipes/tools.lock.json"


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(where=st.integers(0, 700), byte=st.integers(0, 255))
def test_a_flipped_byte_in_a_lock(tmp_path: Path, where: int, byte: int) -> None:
    """Whatever the byte: valid, or errors that name the lock or the recipe whose lock it was."""
    root = project(tmp_path)
    data = bytearray((root / LOCK).read_bytes())
    data[where % len(data)] = byte
    (root / LOCK).write_bytes(data)
    for error in validate(load_project(root)):
        assert error.place is not None
        assert error.place.file == LOCK


def test_the_fuzz_starts_from_a_valid_board() -> None:
    document = parse(BOARD, "board.yaml")
    assert list(layout_faults(convert(document, Board), document)) == []
    with pytest.raises(InputError):
        convert(parse(BOARD.replace(b"2GiB", b"2GB"), ""), Board)
