"""``invoke check``."""

from __future__ import annotations

import json
from pathlib import Path

from boardwright.errors import ExitStatus, InputError, InputErrors
from boardwright.verbs.common import say


def check(root: Path, board: str, as_json: bool) -> int:
    """Validate the files of one board or of all; every mistake with its place."""
    from boardwright.schema.project import load_project
    from boardwright.schema.validate import errors_as_json, validate

    project = load_project(root)
    errors = validate(project, board or None)
    if as_json:
        print(json.dumps(errors_as_json(errors), indent=2))
        return ExitStatus.INPUT if errors else ExitStatus.OK
    if errors:
        raise InputErrors(errors)
    if not project.boards():
        raise InputError("there is no board", hint="boards/<name>/board.yaml makes one: docs/board-file.md")
    say(f"{', '.join([board] if board else project.boards())}: no mistakes found")
    return ExitStatus.OK
