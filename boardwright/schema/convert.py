"""Plain values to typed objects; when they do not fit, every mistake with its place, in one pass.

msgspec converts, and stops at the first mistake. So the types are walked a second time, only then, to
find all of them and to say what was expected in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect as types

from boardwright.errors import InputError
from boardwright.schema import units
from boardwright.schema.suggest import nearest
from boardwright.schema.yamltree import Document, Path, raise_all

T = TypeVar("T")


def convert(document: Document, kind: type[T]) -> T:
    """The object of type ``kind`` that ``document`` describes. Raises ``InputError`` or ``InputErrors``."""
    try:
        return msgspec.convert(document.value, kind, dec_hook=units.decode)
    except msgspec.ValidationError as error:
        raise_all(mistakes(document, kind))
        raise InputError(str(error), place=document.place()) from None


def mistakes(document: Document, kind: object) -> list[InputError]:
    """Everything in ``document`` that does not fit ``kind``, in the order of the file."""
    found = _Walk(document).faults(document.value, types.type_info(kind), ())
    errors = [
        InputError(fault.message, place=document.place(fault.path, key=fault.key), hint=fault.hint)
        for fault in found
    ]
    return sorted(errors, key=lambda e: (e.place.line, e.place.column) if e.place else (0, 0))


class _Fault(msgspec.Struct, frozen=True):
    path: Path
    message: str
    hint: str | None = None
    key: bool = False


class _Walk(msgspec.Struct, frozen=True):
    """A walk over values and types together. Types are those of ``msgspec.inspect``."""

    document: Document

    def faults(self, value: Any, kind: Any, path: Path, words: str | None = None) -> Iterator[_Fault]:
        """``words``: what a value of this type is called, when its type has a description."""
        match kind:
            case types.Metadata():
                more = kind.extra_json_schema or {}
                for fault in self.faults(value, kind.type, path, more.get("description")):
                    yield _Fault(path, "expected " + more["description"]) if "writeOnly" in more else fault
            case types.UnionType():
                yield from self._union(value, kind, path)
            case types.CustomType():
                yield from _size(value, kind.cls, path)
            case types.LiteralType():
                yield from _choice(value, kind.values, path)
            case types.StructType():
                yield from self._struct(value, kind, path)
            case types.DictType() if isinstance(value, dict):
                for key, below in value.items():
                    yield from self.faults(below, kind.value_type, (*path, key))
            case types.ListType() if isinstance(value, list):
                for index, below in enumerate(value):
                    yield from self.faults(below, kind.item_type, (*path, index))
            case types.AnyType():
                return
            case _ if not _fits(value, kind):
                expected = words or _PLAIN[type(kind)]
                yield _Fault(
                    path, f"expected {expected}, found {found(value)}", self._hint(value, kind, path)
                )

    def _union(self, value: Any, kind: Any, path: Path) -> Iterator[_Fault]:
        """Structs told apart by a tag, or a type that may be left out (None)."""
        structs = {str(t.tag): t for t in kind.types if isinstance(t, types.StructType) and t.tag_field}
        if not structs:
            if value is not None:
                yield from self.faults(value, _other_than_none(kind), path)
            return
        field = str(next(iter(structs.values())).tag_field)
        if not isinstance(value, dict):
            yield _Fault(path, f"expected a mapping, found {found(value)}")
        elif field not in value:
            yield _Fault(path, f"key {field!r} is missing", f"one of {', '.join(structs)}", key=True)
        elif value[field] not in structs:
            yield from _choice(value[field], structs, (*path, field))
        else:
            yield from self._struct(value, structs[value[field]], path, list(structs.values()))

    def _struct(
        self, value: Any, kind: Any, path: Path, siblings: list[Any] | None = None
    ) -> Iterator[_Fault]:
        if not isinstance(value, dict):
            yield _Fault(path, f"expected a mapping, found {found(value)}", self._hint(value, kind, path))
            return
        fields = {field.encode_name: field for field in kind.fields}
        explained: set[str] = set()
        for key, below in value.items():
            if key in fields:
                yield from self.faults(below, fields[key].type, (*path, key))
            elif key != kind.tag_field:
                close = [name for name in fields if name not in value]
                hint = nearest(key, close) or _elsewhere(key, kind, siblings or [])
                explained |= {name for name in close if hint == f"did you mean {name!r}?"}
                known = f"known keys: {', '.join(fields)}"
                yield _Fault((*path, key), f"unknown key {key!r}", hint or known, key=True)
        for name, field in fields.items():
            if field.required and name not in value and name not in explained:
                yield _Fault(path, f"key {name!r} is missing", key=True)

    def _hint(self, value: Any, kind: types.Type, path: Path) -> str | None:
        source = self.document.source(path)
        match kind:
            case types.ListType() if value is None:
                return "write [] for none"
            case _ if value is None:
                return "give a value, or leave the key out"
            case types.StrType() if not isinstance(value, str) and source is not None:
                return f'write it in quotes: "{source}"'
            case types.ListType() if isinstance(value, str):
                return f"write [{value}]"
            case types.IntType() if isinstance(value, str) and value.isdecimal():
                return "write it without quotes"
        return None


_PLAIN: dict[type, str] = {
    types.StrType: "text",
    types.IntType: "a whole number",
    types.FloatType: "a number",
    types.BoolType: "true or false",
    types.ListType: "a list",
    types.DictType: "a mapping",
}


def _other_than_none(kind: types.UnionType) -> types.Type:
    return next(t for t in kind.types if not isinstance(t, types.NoneType))


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, _annotation(kind))
    except msgspec.ValidationError:
        return False
    return True


def _annotation(kind: types.Type) -> Any:
    """The Python type of a plain type, constraints included."""
    plain = _PYTHON[type(kind)]
    limits = {
        limit: getattr(kind, limit)
        for limit in ("ge", "le", "gt", "lt", "pattern", "min_length", "max_length")
        if getattr(kind, limit, None) is not None
    }
    return Annotated[plain, msgspec.Meta(**limits)] if limits else plain


_PYTHON: dict[type, type] = {
    types.StrType: str,
    types.IntType: int,
    types.FloatType: float,
    types.BoolType: bool,
    types.ListType: list,
    types.DictType: dict,
}


def _size(value: Any, kind: type, path: Path) -> Iterator[_Fault]:
    try:
        units.decode(kind, value)
    except units.SizeError as error:
        if kind is units.Size:
            yield _Fault(path, error.message, error.hint)
        else:
            message = error.message.replace(", found", ", or 'rest', found", 1)
            yield _Fault(path, message, error.hint or nearest(str(value), ["rest"]))


def _choice(value: Any, known: Any, path: Path) -> Iterator[_Fault]:
    if value not in known or isinstance(value, bool):
        words = [str(word) for word in known]
        expected = f"one of {', '.join(words)}" if len(words) > 1 else words[0]
        yield _Fault(path, f"expected {expected}, found {found(value)}", nearest(str(value), words))


def _elsewhere(key: str, kind: Any, siblings: list[Any]) -> str | None:
    """A key of another kind of recipe: most likely the kind is wrong, or the key in the wrong file."""
    tags = [s.tag for s in siblings if any(field.encode_name == key for field in s.fields)]
    return f"{key!r} is for kind {' or '.join(tags)}, and this is of kind {kind.tag}" if tags else None


def found(value: Any) -> str:
    """A value as an error names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:50]!r}… ({len(value)} characters)"
    return "a list" if isinstance(value, list) else "a mapping"
