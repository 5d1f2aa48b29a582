"""JUnit XML: ``failure`` is a product failure, ``error`` a lab error, as CI systems tell them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from boardwright.results.outcome import CheckResult, Outcome

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {Outcome.FAIL: "failure", Outcome.ERROR: "error", Outcome.SKIP: "skipped"}


def junit(suite: str, results: Sequence[CheckResult], properties: Mapping[str, str], log: str = "") -> str:
    """The document; measurements become properties of their test case, ``log`` the suite's system-out."""
    count = {tag: sum(_TAGS.get(r.outcome) == tag for r in results) for tag in _TAGS.values()}
    top = ElementTree.Element("testsuites")
    total = _seconds(sum(result.seconds for result in results))
    element = ElementTree.SubElement(
        top, "testsuite", name=suite, tests=str(len(results)), failures=str(count["failure"]),
        errors=str(count["error"]), skipped=str(count["skipped"]), time=total,
    )  # fmt: skip
    _properties(element, properties)
    for result in results:
        _case(element, suite, result)
    if log:
        ElementTree.SubElement(element, "system-out").text = _clean(log)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, name: str, result: CheckResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=name, name=_clean(result.check), time=_seconds(result.seconds)
    )
    measured = {m.name: m.shown for m in result.measurements}
    expected = {f"{m.name} expected": str(m.expected) for m in result.measurements if m.expected is not None}
    _properties(case, {"evidence": str(result.evidence), **measured, **expected})
    if result.outcome in _TAGS:
        message = _clean(result.detail)
        told = ElementTree.SubElement(case, _TAGS[result.outcome], message=message)
        told.text = "\n".join(filter(None, [message, _clean(result.hint)]))


def _properties(parent: ElementTree.Element, values: Mapping[str, str]) -> None:
    element = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        ElementTree.SubElement(element, "property", name=_clean(name), value=_clean(value))


def _clean(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _seconds(value: float) -> str:
    return f"{value:.3f}"
