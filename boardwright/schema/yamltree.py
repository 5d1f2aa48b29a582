"""One YAML file as plain values whose places in the file are still known.

A narrower YAML than PyYAML's: keys are text and stand once; one document; no tags, no merge keys; and no
plain word that YAML 1.1 and YAML 1.2 read differently (``on``, ``017``, ``1:30``), since whoever wrote it
meant one of the two.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from boardwright.errors import InputError, InputErrors, Place

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: the same, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MOST_BYTES = 4 * 2**20
MOST_NODES = 100_000
"""Counted after aliases are followed, so that few bytes cannot become gigabytes of values."""
DEEPEST = 24

Path = tuple[str | int, ...]
"""Keys and indices from the root of the file to a value: ``("partitions", 1, "size")``."""

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_OCTAL_1_2 = re.compile(r"0o[0-7]+")
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


class Document(msgspec.Struct, frozen=True):
    """The values of a file (``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, None)."""

    file: str
    value: object
    node: yaml.Node

    def place(self, path: Path = (), *, key: bool = False) -> Place:
        """Where the value at ``path`` begins, or its key; for a path not in the file, what encloses it."""
        key_node, node = None, self.node
        for part in path:
            below = _below(node, part)
            if below is None:
                key = True
                break
            key_node, node = below
        return _place(self.file, key_node if key and key_node else node)

    def source(self, path: Path) -> str | None:
        """A plain value as it is written in the file: ``6.10``, not the number 6.1."""
        node: yaml.Node = self.node
        for part in path:
            below = _below(node, part)
            if below is None:
                return None
            node = below[1]
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None


def parse(data: bytes, file: str) -> Document:
    """The document in ``data``. Raises ``InputError`` with its place, or ``InputErrors``."""
    if len(data) > MOST_BYTES:
        raise InputError(
            f"expected a file of {MOST_BYTES} bytes at most, found {len(data)}", place=Place(file)
        )
    text = _decoded(data, file)
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        raise _syntax(error, text, file) from None
    except RecursionError:  # only without libyaml, which bounds depth itself
        raise InputError(f"expected {DEEPEST} levels at most", place=Place(file)) from None
    if node is None:
        raise InputError("the file is empty", place=Place(file, 1), hint="see docs/ for what belongs in it")
    walk = _Walk(file)
    value = walk.value(node, 0)
    raise_all(walk.errors)
    return Document(file, value, node)


def raise_all(errors: list[InputError]) -> None:
    """Raise what was found, one error as itself."""
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)


class _TooMuchError(Exception):
    """The walk ends here: the rest of the file would take too long."""


class _Walk(msgspec.Struct):
    """Nodes to values, with every mistake on the way."""

    file: str
    errors: list[InputError] = []
    nodes: int = 0

    def value(self, root: yaml.Node, depth: int) -> Any:
        try:
            return self._value(root, depth)
        except _TooMuchError:
            return None

    def _value(self, node: yaml.Node, depth: int) -> Any:
        self.nodes += 1
        if depth > DEEPEST or self.nodes > MOST_NODES:
            limit = f"{DEEPEST} levels" if depth > DEEPEST else f"{MOST_NODES} values, aliases followed,"
            self._refuse(node, f"expected {limit} at most", None)
            raise _TooMuchError
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, depth)
        return self._refuse_tag(node)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            value = self._value(value_node, depth + 1)
            if key is None:
                continue
            if key in values:
                self._refuse(
                    key_node, f"key {key!r} stands in line {lines[key]} already", "remove one of them"
                )
                continue
            values[key], lines[key] = value, key_node.start_mark.line + 1
        return values

    def _key(self, node: yaml.Node) -> str | None:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str":
            return str(node.value)
        if node.tag == f"{_TAG}merge":
            self._refuse(node, "merge keys (<<) are not taken", "write the keys out")
        elif isinstance(node, yaml.ScalarNode):
            self._refuse(node, f"expected a key that is text, found {node.value}", _quote(node.value))
        else:
            self._refuse(node, "expected a key that is text, found a list or mapping", None)
        return None

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        tag, text = node.tag.removeprefix(_TAG), str(node.value)
        if tag == "str" and not (node.style in (None, "") and _OCTAL_1_2.fullmatch(text)):
            return text
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if tag == "int" and _INT.fullmatch(text) and len(text) < 20:
            return int(text, 0)
        if tag == "float" and _FLOAT.fullmatch(text):
            return float(text)
        return self._ambiguous(node, tag, text)

    def _ambiguous(self, node: yaml.ScalarNode, tag: str, text: str) -> None:
        if tag == "bool":
            meant = "true" if text.lower() in ("yes", "on") else "false"
            self._refuse(
                node,
                f"{text} is true or false to some readers of YAML and text to others",
                f'write {meant}, or "{text}" when text is meant',
            )
        elif tag in ("int", "float", "timestamp", "str", "value"):
            self._refuse(
                node,
                f"{text} is not the same to all readers of YAML",
                f'write a plain decimal number, or "{text}" when text is meant',
            )
        else:
            self._refuse_tag(node)

    def _refuse_tag(self, node: yaml.Node) -> None:
        self._refuse(node, f"tags such as {node.tag.replace(_TAG, '!!')} are not taken", "remove the tag")

    def _refuse(self, node: yaml.Node, message: str, hint: str | None) -> None:
        self.errors.append(InputError(message, place=_place(self.file, node), hint=hint))


def _quote(text: str) -> str:
    return f'write it in quotes: "{text}"'


def _below(node: yaml.Node, part: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    """The key (of a mapping) and the value one step down, or None."""
    if isinstance(node, yaml.MappingNode) and isinstance(part, str):
        return next(((k, v) for k, v in node.value if k.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None


def _place(file: str, node: yaml.Node) -> Place:
    return Place(file, node.start_mark.line + 1, node.start_mark.column + 1)


def place_of(text: str, position: int, file: str) -> Place:
    """The place of a character of ``text``."""
    before = text[:position]
    return Place(file, before.count("\n") + 1, position - before.rfind("\n"))


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"expected UTF-8, found the byte 0x{data[error.start]:02x}",
            place=Place(file, line),
            hint="save the file as UTF-8",
        ) from None


def _syntax(error: yaml.YAMLError, text: str, file: str) -> InputError:
    """What the parser says, with its place and, for the mistakes people make, what to do."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        found = _NOT_TEXT.search(text)
        if found is None:
            return InputError(f"not YAML: {error}", place=Place(file))
        return InputError(
            f"expected text, found the control character 0x{ord(found[0]):02x}",
            place=place_of(text, found.start(), file),
        )
    problem, context = str(getattr(error, "problem", "")), getattr(error, "context", None)
    place = Place(file, mark.line + 1, mark.column + 1)
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t":
        return InputError(
            "not YAML: a tab where only spaces may stand", place=place, hint="indent with spaces"
        )
    if "single document" in str(context):
        return InputError(
            "expected one YAML document, found a second", place=place, hint="remove the line ---"
        )
    hint = 'text that contains ": " stands in quotes' if "mapping values" in problem else None
    start = getattr(error, "context_mark", None)
    since = f" ({context}, which began in line {start.line + 1})" if context and start else ""
    return InputError(f"not YAML: {problem}{since}", place=place, hint=hint)
