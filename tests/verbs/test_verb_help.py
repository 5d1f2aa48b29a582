"""``invoke --help VERB``: every option has a name and says what it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from invoke import Collection

ROOT = Path(__file__).parents[2]


def tasks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("boardwright_tasks", ROOT / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VERBS = Collection.from_module(tasks())


@pytest.mark.parametrize("verb", sorted(VERBS.task_names))
def test_every_option_has_a_name_and_a_line(verb: str) -> None:
    for argument in VERBS[verb].get_arguments():
        assert all(name.strip("-_") for name in argument.names), argument.names
        assert argument.help, argument.names
