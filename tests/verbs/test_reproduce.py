"""What ``invoke reproduce`` says about two stores that were filled by two builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from boardwright.build.plan import Plan, make
from boardwright.build.step import Output, RootStep, Step
from boardwright.build.store import Store
from boardwright.errors import ProductError
from boardwright.verbs.reproduce import _compare


def plan() -> Plan:
    root = RootStep("tools", "", "amd64", (), "root")
    first = Step("first", "", "true", "tools", ("a", "b"))
    second = Step("second", "", "true", "tools", ("c",), {"given": Output("first", "a")})
    return make([second, first, root], ["second"])


def filled(directory: Path, outputs: Mapping[str, Mapping[str, str]]) -> Store:
    """A store in which each step left the given files."""
    store = Store(directory)
    for name, planned in plan().steps.items():
        with store.scratch(planned.key) as scratch, store.locked(planned.key):
            (scratch / "out").mkdir()
            for path, text in outputs.get(name, {}).items():
                (scratch / "out" / path).write_text(text)
            store.commit(planned.key, scratch, name, planned.record)
    return store


SAME = {"tools": {"root": "r"}, "first": {"a": "1", "b": "2"}, "second": {"c": "3"}}


def test_equal_outputs_have_no_difference(tmp_path: Path) -> None:
    compared = dict(_compare(plan(), filled(tmp_path / "one", SAME), filled(tmp_path / "two", SAME)))
    assert compared == {"tools": None, "first": None, "second": None}


def test_the_first_step_in_the_plans_order_that_differs_is_named(tmp_path: Path) -> None:
    other = {**SAME, "first": {"a": "1", "b": "x"}, "second": {"c": "y"}}
    compared = list(_compare(plan(), filled(tmp_path / "one", SAME), filled(tmp_path / "two", other)))
    differing = [difference for _, difference in compared if difference]
    assert (differing[0].step, differing[0].path) == ("first", "b")


def test_a_file_that_only_one_build_has_is_told_apart(tmp_path: Path) -> None:
    other = {**SAME, "first": {"a": "1"}}
    compared = dict(_compare(plan(), filled(tmp_path / "one", SAME), filled(tmp_path / "two", other)))
    difference = compared["first"]
    assert difference is not None
    assert (difference.path, difference.second) == ("b", None)


def test_another_key_means_something_undeclared_is_in_it(tmp_path: Path) -> None:
    with pytest.raises(ProductError, match="another key for step tools"):
        dict(_compare(plan(), filled(tmp_path / "one", SAME), Store(tmp_path / "empty")))
