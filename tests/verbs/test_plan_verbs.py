"""``explain``'s comparison of records, and reproduce's of entries."""

from __future__ import annotations

from boardwright.verbs.plan import differences


def test_a_changed_input_is_named_with_both_digests() -> None:
    before = {"inputs": {"config/base.config": "local " + "a" * 64}, "epoch": 1}
    after = {"inputs": {"config/base.config": "local " + "b" * 64}, "epoch": 1}
    assert list(differences(before, after)) == [
        "inputs.config/base.config: changed from local aaaaaaaaaaaa to local bbbbbbbbbbbb"
    ]


def test_new_and_gone_inputs_are_told_apart() -> None:
    assert list(differences({"inputs": {"a": "1"}}, {"inputs": {"b": "2"}})) == [
        "inputs.a: gone (was 1)",
        "inputs.b: new (2)",
    ]


def test_equal_records_have_no_differences() -> None:
    assert list(differences({"x": {"y": [1, 2]}}, {"x": {"y": [1, 2]}})) == []
