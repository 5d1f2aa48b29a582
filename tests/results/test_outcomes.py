"""Exit statuses, tables and JUnit of results that no real run would give together."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import ExitStatus
from boardwright.results import junit, table
from boardwright.results.outcome import CheckResult, Evidence, Measurement, Outcome, exit_status


def result(outcome: str, name: str = "x", detail: str = "") -> CheckResult:
    return CheckResult(name, Outcome(outcome), Evidence.EMULATED, 1.0, (Measurement("m", 1, 2),), detail)


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ("pass", ExitStatus.OK),
        ("pass skip", ExitStatus.OK),
        ("pass fail", ExitStatus.PRODUCT),
        ("pass error", ExitStatus.HOST),
        ("fail error", ExitStatus.PRODUCT),
        ("skip", ExitStatus.HOST),
        ("", ExitStatus.HOST),
    ],
)
def test_exit_status(outcomes: str, status: ExitStatus) -> None:
    assert exit_status([result(outcome) for outcome in outcomes.split()]) is status


def test_the_plain_table_says_why_a_check_did_not_pass() -> None:
    text = table.plain([result("pass", "good"), result("fail", "bad", "it is 1 and not 2")])
    assert text.splitlines()[2].split() == ["good", "pass", "1", "2", "emulated"]
    assert "fail: bad: it is 1 and not 2" in text


@given(st.text(), st.text())
def test_junit_is_xml_whatever_a_board_says(name: str, detail: str) -> None:
    text = junit.junit("suite", [result("fail", name, detail)], {"board": name}, log=detail)
    suite = ElementTree.fromstring(text.encode("utf-8", "surrogatepass")).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"
