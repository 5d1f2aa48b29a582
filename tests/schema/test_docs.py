"""What people and editors read about the files keeps up with the types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from boardwright.schema import board, lock, recipe
from boardwright.schema.jsonschema import FILES, generate
from boardwright.schema.project import load_project
from boardwright.schema.validate import validate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def records(module: object) -> list[type[msgspec.Struct]]:
    found = [kind for kind in vars(module).values() if isinstance(kind, type)]
    return [kind for kind in found if issubclass(kind, board.Record) and kind.__module__ == module.__name__]  # type: ignore[attr-defined]


def keys(module: object) -> set[str]:
    return {
        field.encode_name
        for kind in records(module)
        if kind is not board.Local
        for field in msgspec.structs.fields(kind)
    }


def test_the_schemas_in_docs_are_those_of_the_types(tmp_path: Path) -> None:
    texts = generate(tmp_path)
    for name, text in texts.items():
        stale = "run `python -m boardwright.schema.jsonschema docs/schema`"
        assert (DOCS / "schema" / name).read_text() == text, stale
    assert set(texts) == set(FILES) == {path.name for path in (DOCS / "schema").iterdir()}


@pytest.mark.parametrize("name", FILES)
def test_every_reference_in_a_schema_leads_somewhere(name: str) -> None:
    text = (DOCS / "schema" / name).read_text()
    schema = json.loads(text)
    wanted = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
    assert wanted == set(schema["$defs"])


@pytest.mark.parametrize("name", FILES)
def test_a_schema_refuses_unknown_keys_and_spells_sizes_with_units(name: str) -> None:
    schema = json.loads((DOCS / "schema" / name).read_text())
    assert all(kind["additionalProperties"] is False for kind in schema["$defs"].values())
    if name == "board.schema.json":
        disk = schema["$defs"]["Disk"]["properties"]
        assert disk["first-partition"]["default"] == "16MiB"
        assert disk["size"]["pattern"].endswith("(B|KiB|MiB|GiB|TiB)$")


@pytest.mark.parametrize(
    ("page", "module"), [("board-file.md", board), ("recipe-file.md", recipe), ("recipe-file.md", lock)]
)
def test_a_page_explains_every_key(page: str, module: object) -> None:
    text = (DOCS / page).read_text()
    assert [key for key in sorted(keys(module)) if f"`{key}`" not in text] == []


def test_the_board_page_explains_every_key_of_local_yaml() -> None:
    text = (DOCS / "board-file.md").read_text()
    assert [
        f.encode_name for f in msgspec.structs.fields(board.Local) if f"`{f.encode_name}`" not in text
    ] == []


def test_the_recipe_page_explains_every_kind() -> None:
    text = (DOCS / "recipe-file.md").read_text()
    tags = {str(kind.__struct_config__.tag) for kind in get_args(recipe.Recipe)}
    assert len(tags) == 12
    assert [tag for tag in sorted(tags) if f"## `{tag}`" not in text] == []


@pytest.mark.parametrize("path", [*ROOT.glob("boards/*/board.yaml"), *ROOT.glob("recipes/*.yaml")], ids=str)
def test_every_file_people_edit_tells_editors_its_schema(path: Path) -> None:
    first = path.read_text().split("\n", 1)[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (path.parent / first.split("=", 1)[1]).resolve().parent == DOCS / "schema"


def test_the_files_of_this_project_have_no_mistakes() -> None:
    assert [
        str(error)
        for error in validate(load_project(ROOT))
        if error.place and error.place.file != "local.yaml"
    ] == []
