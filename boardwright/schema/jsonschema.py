"""JSON Schemas of the files people edit, for editors; kept in ``docs/schema/``.

``python -m boardwright.schema.jsonschema docs/schema`` writes them again. Made from ``msgspec.inspect``
and not by ``msgspec.json.schema``, which cannot write a default of a type of ours, and whose ``anyOf`` for
the kinds of recipes makes editors complain about all kinds at once.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from boardwright.schema import units
from boardwright.schema.board import Board, Local, Record
from boardwright.schema.lock import Lock
from boardwright.schema.recipe import Recipe

FILES: dict[str, tuple[Any, str]] = {
    "board.schema.json": (Board, "boards/<name>/board.yaml of boardwright"),
    "recipe.schema.json": (Recipe, "recipes/<name>.yaml of boardwright"),
    "lock.schema.json": (Lock, "recipes/<name>.lock.json of boardwright"),
    "local.schema.json": (Local, "local.yaml of boardwright"),
}
Schema = dict[str, Any]

_SIZE: Schema = {"type": "string", "pattern": units.PATTERN, "examples": ["512MiB", "2GiB"]}
_SIZES: dict[Any, Schema] = {units.Size: _SIZE, units.SizeOrRest: {"anyOf": [_SIZE, {"const": "rest"}]}}
_PLAIN: dict[type, str] = {
    types.StrType: "string",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
}
_LIMITS = {"pattern": "pattern", "ge": "minimum", "le": "maximum"}


def generate(directory: Path) -> dict[str, str]:
    """Write the schemas into ``directory``; returns their texts by file name."""
    texts = {name: text(kind, title) for name, (kind, title) in FILES.items()}
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in texts.items():
        (directory / name).write_text(content)
    return texts


def text(kind: Any, title: str) -> str:
    """The schema of one type, with the texts below its fields as descriptions."""
    definitions: dict[str, Schema] = {}
    schema = _schema(types.type_info(kind), definitions)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(head | schema | {"$defs": definitions}, indent=1, ensure_ascii=False) + "\n"


def _schema(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """The schema of a type of ``msgspec.inspect``; those of objects go into ``definitions``."""
    match kind:
        case types.Metadata():
            return _schema(kind.type, definitions) | (kind.extra_json_schema or {})
        case types.UnionType():
            return _union(kind, definitions)
        case types.CustomType():
            return _SIZES[kind.cls]
        case types.LiteralType():
            return {"enum": list(kind.values)}
        case types.ListType():
            return {"type": "array", "items": _schema(kind.item_type, definitions)}
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type, definitions)}
        case types.StructType():
            name = kind.cls.__name__
            if name not in definitions:
                definitions[name] = _object(kind, definitions)
            return {"$ref": f"#/$defs/{name}"}
        case types.AnyType():
            return {}
    limits = {word: getattr(kind, limit, None) for limit, word in _LIMITS.items()}
    return {"type": _PLAIN[type(kind)]} | {word: limit for word, limit in limits.items() if limit is not None}


def _union(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """A value that may be left out, or objects told apart by their tag."""
    tagged = {t.tag: _schema(t, definitions) for t in kind.types if getattr(t, "tag_field", None)}
    if not tagged:
        return {"anyOf": [_schema(t, definitions) for t in kind.types]}
    tag = kind.types[0].tag_field
    return {
        "type": "object",
        "required": [tag],
        "properties": {tag: {"enum": list(tagged)}},
        "allOf": [
            {"if": {"required": [tag], "properties": {tag: {"const": name}}}, "then": schema}
            for name, schema in tagged.items()
        ],
    }


def _object(kind: Any, definitions: dict[str, Schema]) -> Schema:
    words = _texts(kind.cls)
    properties: dict[str, Schema] = {kind.tag_field: {"const": kind.tag}} if kind.tag_field else {}
    for field in kind.fields:
        schema = _schema(field.type, definitions)
        if field.name in words:
            schema = schema | {"description": words[field.name]}
        properties[field.encode_name] = schema | _default(field)
    return {
        "type": "object",
        "description": _folded(kind.cls.__doc__ or ""),
        "properties": properties,
        "required": [field.encode_name for field in kind.fields if field.required],
        "additionalProperties": False,
    }


def _default(field: Any) -> Schema:
    """The default as a file spells it: ``2GiB``, not its bytes."""
    value = field.default
    if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None or value is msgspec.NODEFAULT or isinstance(value, msgspec.Struct):
        return {}
    return {"default": str(value) if isinstance(value, units.Size) else value}


def _folded(words: str) -> str:
    return " ".join(words.split()).replace("``", "`")


def _texts(record: type) -> dict[str, str]:
    """The string after each annotated name of a class and its bases, blanks folded."""
    found: dict[str, str] = {}
    for kind in reversed(record.__mro__):
        if not issubclass(kind, Record):
            continue
        body = ast.parse(inspect.getsource(kind)).body[0]
        assert isinstance(body, ast.ClassDef)
        for one, following in zip(body.body, body.body[1:], strict=False):
            match one, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = _folded(words)
    return found


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
