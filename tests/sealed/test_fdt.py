"""Device trees are read as dtc wrote them, and damage is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.sealed import fdt

Node = dict[str, "bytes | Node"]


def flattened(root: Node) -> bytes:
    """A tree as the Devicetree Specification 0.4, chapter 5 lays it out: bytes are properties."""
    strings, structure = bytearray(), bytearray()

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 4)

    def put(name: str, node: Node) -> None:
        structure.extend(struct.pack(">I", 1) + padded(name.encode() + b"\0"))
        for key, value in node.items():
            if isinstance(value, bytes):
                structure.extend(struct.pack(">3I", 3, len(value), len(strings)) + padded(value))
                strings.extend(key.encode() + b"\0")
        structure.extend(struct.pack(">I", 4))
        for key, value in node.items():
            if not isinstance(value, bytes):
                put(key, value)
        structure.extend(struct.pack(">I", 2))

    put("", root)
    structure.extend(struct.pack(">I", 9))
    start = 40 + 16
    end = start + len(structure)
    header = struct.pack(
        ">10I", 0xD00DFEED, end + len(strings), start, end, 40, 17, 16, 0, len(strings), len(structure)
    )
    return header + bytes(16) + bytes(structure) + bytes(strings)


SMALL = flattened({"model": b"Board\0", "soc": {"uart@0": {"reg": b"\0\0\0\1"}}, "empty": {}})


def test_a_tree_is_read_with_every_node_and_property() -> None:
    assert fdt.read(SMALL + b"what follows is no part of it") == {
        "/": {"model": b"Board\0"},
        "/soc": {},
        "/soc/uart@0": {"reg": b"\0\0\0\1"},
        "/empty": {},
    }


@given(
    st.recursive(
        st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), st.binary(max_size=9), max_size=3),
        lambda nodes: st.dictionaries(st.from_regex(r"[A-Z]{1,6}@[0-9]", fullmatch=True), nodes, max_size=3),
        max_leaves=6,
    )
)
def test_what_was_written_is_read(root: Node) -> None:
    def listed(path: str, node: Node) -> fdt.Tree:
        tree = {path or "/": {key: value for key, value in node.items() if isinstance(value, bytes)}}
        for key, value in node.items():
            if not isinstance(value, bytes):
                tree |= listed(f"{path}/{key}", value)
        return tree

    assert fdt.read(flattened(root)) == listed("", root)


@given(at=st.integers(0, len(SMALL) - 1), value=st.integers(0, 255))
def test_a_damaged_tree_is_read_or_refused_in_words(at: int, value: int) -> None:
    try:
        tree = fdt.read(SMALL[:at] + bytes([value]) + SMALL[at + 1 :])
    except fdt.NotATree:
        return
    assert "/" in tree


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "found 0 bytes"),
        (b"\x7fELF" + bytes(60), "found 0x7f454c46"),
        (SMALL[:-1], f"expected a device tree of {len(SMALL)} bytes"),
    ],
    ids=["empty", "ELF", "cut"],
)
def test_other_bytes_are_refused_with_what_was_found(data: bytes, words: str) -> None:
    with pytest.raises(fdt.NotATree, match=words):
        fdt.read(data)


def test_cells_are_big_endian_words_and_nothing_else() -> None:
    assert fdt.cells(b"\0\0\0\1\x20\0\0\0") == (1, 0x2000_0000)
    with pytest.raises(fdt.NotATree, match="found 3 bytes"):
        fdt.cells(b"abc")


TREE: Node = {
    "model": b"board\0",
    "pcie@10": {"dma-coherent": b"", "reg": b"\0\0\0\1", "child": {"dma-coherent": b""}},
}


def test_a_property_is_taken_out_of_one_node_and_everything_else_stays() -> None:
    before = flattened(TREE)
    after = fdt.without(before, "/pcie@10", "dma-coherent")
    assert len(after) == len(before)
    tree = fdt.read(after)
    assert tree["/pcie@10"] == {"reg": b"\0\0\0\1"}
    assert tree["/pcie@10/child"] == {"dma-coherent": b""}


def test_a_property_with_a_value_of_odd_length_leaves_a_tree_that_can_be_read() -> None:
    assert fdt.read(fdt.without(flattened(TREE), "/", "model"))["/"] == {}


@pytest.mark.parametrize(
    ("path", "name"), [("/pcie@10", "model"), ("/pcie@11", "reg"), ("/", "dma-coherent")]
)
def test_a_property_that_is_not_there_is_refused(path: str, name: str) -> None:
    with pytest.raises(fdt.NotATree, match=f"expected a property {name} of {path}"):
        fdt.without(flattened(TREE), path, name)


def test_free_space_behind_a_tree_is_dropped_and_nothing_else() -> None:
    tight = flattened(TREE)
    roomy = tight[:4] + struct.pack(">I", len(tight) + 4096) + tight[8:] + bytes(4096)
    assert fdt.packed(roomy) == tight
    assert fdt.read(fdt.packed(roomy)) == fdt.read(tight)
