"""Flattened device trees, read: what dtc, U-Boot's FIT images and the kernel's .dtb files have in common.

Format: Devicetree Specification 0.4, chapter 5. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = 0xD00DFEED
_BEGIN_NODE, _END_NODE, _PROP, _NOP, _END = 1, 2, 3, 4, 9

Tree = dict[str, dict[str, bytes]]
"""Properties by path: ``/`` and ``/soc/uart@0``; every node is there, also one without properties."""


class NotATree(ValueError):
    """The bytes are not a flattened device tree; the message says what was expected and found."""


def total_size(data: bytes) -> int:
    """Bytes of the tree that ``data`` begins with. Raises :class:`NotATree`."""
    if len(data) < 40:
        raise NotATree(f"expected a device tree, whose header has 40 bytes, found {len(data)} bytes")
    magic, size = struct.unpack_from(">2I", data)
    if magic != MAGIC:
        raise NotATree(f"expected a device tree (magic {MAGIC:#x}), found {magic:#x}")
    return int(size)


def read(data: bytes) -> Tree:
    """The tree that ``data`` begins with; bytes after it are ignored. Raises :class:`NotATree`."""
    size = total_size(data)
    if len(data) < size:
        raise NotATree(f"expected a device tree of {size} bytes, found {len(data)}")
    try:
        return _read(data[:size])
    except (struct.error, ValueError, IndexError) as error:
        raise NotATree(f"expected a device tree, found damage in its structure ({error})") from error


def _read(data: bytes) -> Tree:
    tree: Tree = {}
    path: list[str] = []
    for kind, name, value, _ in _tokens(data):
        if kind == _BEGIN_NODE:
            path.append(name)
            tree[_joined(path)] = {}
        elif kind == _PROP:
            tree[_joined(path)][name] = value
        else:
            path.pop()
    if path or "/" not in tree:
        raise ValueError("nodes that do not end")
    return tree


def without(data: bytes, path: str, name: str) -> bytes:
    """The same tree without a property: FDT_NOP in its place, so that nothing moves.

    Raises :class:`NotATree`, also when the node at ``path`` has no such property.
    """
    size, node = total_size(data), []
    for kind, found, value, start in _tokens(data[:size]):
        if kind == _BEGIN_NODE:
            node.append(found)
        elif kind == _PROP and found == name and _joined(node) == path:
            count = 3 + -(-len(value) // 4)
            return data[:start] + struct.pack(">I", _NOP) * count + data[start + 4 * count :]
        elif kind == _END_NODE:
            node.pop()
    raise NotATree(f"expected a property {name} of {path}, found none")


def packed(data: bytes) -> bytes:
    """The same tree without the free space behind it. Raises :class:`NotATree`."""
    read(data)
    _, _, structure, strings, reserved, _, _, _, strings_size, structure_size = struct.unpack_from(
        ">10I", data
    )
    end = max(structure + structure_size, strings + strings_size, reserved + 16)
    return data[:4] + struct.pack(">I", end) + data[8:end]


def _joined(path: list[str]) -> str:
    if not path:
        raise ValueError("a property outside every node")
    return "/" + "/".join(path[1:])


def _tokens(data: bytes) -> Iterator[tuple[int, str, bytes, int]]:
    """Begin, end and property tokens of the structure block: kind, name, value, where it starts."""
    position, strings = struct.unpack_from(">2I", data, 8)
    while True:
        start = position
        (token,) = struct.unpack_from(">I", data, start)
        position += 4
        if token == _END:
            return
        name, value = "", b""
        if token == _BEGIN_NODE:
            name = _string(data, position)
            position += len(name.encode()) + 1
        elif token == _PROP:
            length, offset = struct.unpack_from(">2I", data, position)
            name, value = _string(data, strings + offset), data[position + 8 : position + 8 + length]
            position += 8 + length
        elif token not in (_END_NODE, _NOP):
            raise ValueError(f"token {token:#x} at {position - 4:#x}")
        position = -(-position // 4) * 4
        if token != _NOP:
            yield token, name, value, start


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(0, start)].decode()


def cells(value: bytes) -> tuple[int, ...]:
    """A property as 32-bit cells. Raises :class:`NotATree` when its length is no multiple of four."""
    if len(value) % 4:
        raise NotATree(f"expected cells of four bytes, found {len(value)} bytes")
    return struct.unpack(f">{len(value) // 4}I", value)


def text(value: bytes) -> str:
    """A property as the first of its strings; bytes that are no text become U+FFFD."""
    return value.split(b"\0", 1)[0].decode(errors="replace")
