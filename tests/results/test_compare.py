"""Two runs side by side: what counts as worse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.results.compare import compare


def rate(value: float, spread: float | None = None, better: str = "higher") -> dict[str, Any]:
    more = {} if spread is None else {"spread": spread}
    return {"name": "rate", "value": value, "expected": None, "unit": "fps", "better": better, **more}


def run(
    *measurements: dict[str, Any], outcome: str = "pass", evidence: str = "hardware", name: str = "kmscube"
) -> dict[str, Any]:
    check = {"check": name, "outcome": outcome, "evidence": evidence, "measurements": list(measurements)}
    return {
        "board": "rock5b",
        "target": "serial",
        "evidence": evidence,
        "image": {"sha256": "a"},
        "checks": [check],
    }


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (rate(60, 0.5), rate(59.6, 0.5), False),  # within the spread
        (rate(60, 0.5), rate(59.4, 0.5), True),
        (rate(60, 0.5), rate(59.4, 0.7), False),  # the larger of the two spreads counts
        (rate(60), rate(58), False),  # a single sample: 5 %
        (rate(60), rate(56), True),
        (rate(60, 0.5), rate(70, 0.5), False),  # better
        (rate(30, 1, "lower"), rate(32, 1, "lower"), True),  # seconds
        (rate(30, 1, "lower"), rate(20, 1, "lower"), False),
    ],
)
def test_a_rate_that_fell_by_more_than_its_spread(
    before: dict[str, Any], after: dict[str, Any], worse: bool
) -> None:
    found = compare(run(before), run(after))
    assert found.compared == 1
    assert bool(found.worse) is worse


def test_a_better_rate_is_told_and_not_flagged() -> None:
    (change,) = compare(run(rate(60, 1)), run(rate(70, 1))).changes
    assert not change.worse
    assert str(change) == "kmscube: rate: 60 fps -> 70 fps (spread 1)"


def test_the_history_knows_how_much_a_rate_moves_by_itself() -> None:
    earlier = [run(rate(50)), run(rate(70))]
    assert compare(run(rate(60)), run(rate(52)), earlier).worse == ()
    other_image = [{**one, "image": {"sha256": "b"}} for one in earlier]
    assert compare(run(rate(60)), run(rate(52)), other_image).worse


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [("pass", "fail", True), ("pass", "error", True), ("pass", "skip", True), ("fail", "pass", False)],
)
def test_outcomes(before: str, after: str, worse: bool) -> None:
    (change,) = compare(run(outcome=before), run(outcome=after)).changes
    assert (change.kind, change.worse) == ("outcome", worse)


def test_rates_on_different_evidence_are_not_compared() -> None:
    found = compare(run(rate(60, 1), evidence="hardware"), run(rate(6, 1), evidence="emulated"))
    assert found.compared == 0
    assert found.worse == ()
    assert found.notes == ("evidence: hardware and emulated",)


def test_a_check_that_is_gone_is_worse_than_one_that_is_new() -> None:
    found = compare(run(name="old"), run(name="new"))
    assert {(c.kind, c.worse) for c in found.changes} == {("gone", True), ("new", False)}


def test_words_and_counts_are_no_rates() -> None:
    word = {"name": "rate", "value": "fast", "better": "higher"}
    count = {"name": "n", "value": 3}
    assert compare(run(word, count), run({**word, "value": "slow"}, {**count, "value": 1})).compared == 0


values = st.floats(0, 1e6) | st.none() | st.text(max_size=3) | st.booleans()


@given(values, values, st.none() | st.floats(0, 10), st.sampled_from(["higher", "lower", ""]))
def test_nothing_is_both_better_and_worse(before: Any, after: Any, spread: float | None, better: str) -> None:
    one, other = run(rate(before, spread, better)), run(rate(after, spread, better))
    assert not (compare(one, other).worse and compare(other, one).worse)
    assert not compare(one, one).changes
