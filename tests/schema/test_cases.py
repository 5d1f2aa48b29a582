"""Every mistake the schema room knows, each with its place, its words and its hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import Case, all_cases, project

from boardwright.errors import ExitStatus, InputErrors
from boardwright.schema.project import load_project
from boardwright.schema.validate import errors_as_json, validate
from boardwright.verbs.check import check

CASES = all_cases()


def test_the_project_the_cases_start_from_has_no_mistake(tmp_path: Path) -> None:
    assert validate(load_project(project(tmp_path))) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_file_is_answered_with(case: Case, tmp_path: Path) -> None:
    errors = validate(load_project(project(tmp_path, case.edits)))
    assert "".join(f"{error}\n" for error in errors) == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_mistake_names_a_file_of_the_project_or_one_that_must_be_there(
    case: Case, tmp_path: Path
) -> None:
    root = project(tmp_path, case.edits)
    for error in validate(load_project(root)):
        assert error.place is not None
        lines = (root / error.place.file).read_text().split("\n")
        assert 1 <= error.place.line <= len(lines)
        assert error.place.column <= len(lines[error.place.line - 1]) + 1


def test_only_the_files_a_board_uses_are_judged_when_it_is_named(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "recipes/unused.yaml").write_text("recipe: unused\n")
    assert validate(load_project(root), "toy") == []
    assert [error.message for error in validate(load_project(root))] == ["key 'kind' is missing"]


def test_an_unknown_board_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (error,) = validate(load_project(project(tmp_path)), "tow")
    assert (error.message, error.hint) == ("there is no board 'tow'", "did you mean 'toy'?")


def test_check_prints_mistakes_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    case = next(case for case in CASES if case.name == "unit-of-powers-of-ten")
    root = project(tmp_path, case.edits)
    assert check(root, "", True) == ExitStatus.INPUT
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": "boards/toy/board.yaml",
            "line": 7,
            "column": 15,
            "message": "expected a binary unit, found '512MB'",
            "hint": "write 512MiB",
        }
    ]
    with pytest.raises(InputErrors):
        check(root, "", False)


def test_an_error_without_a_place_is_one_of_no_file() -> None:
    from boardwright.errors import InputError

    assert errors_as_json([InputError("x")])[0]["line"] == 0
