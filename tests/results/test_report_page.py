"""The page: complete in itself, its links lead to lines, and a board cannot put anything into it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boardwright.results import plots, report


class Page(HTMLParser):
    """Tags, attributes, ids, links and the text of a page; scripts and handlers show as such."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def ids(self) -> set[str | None]:
        return {value for name, value in self.attributes if name == "id"}

    @property
    def links(self) -> set[str | None]:
        return {value for name, value in self.attributes if name == "href"}


def record(**more: Any) -> dict[str, Any]:
    check = {
        "check": "rings", "outcome": "fail", "evidence": "hardware", "seconds": 1.0,
        "hint": "look at the slot",
        "detail": "ring test of ring 0 failed",
        "lines": ["[    6.6] radeon: ring 0 test failed (scratch(0x850C)=0xCAFEDEAD)"],
        "measurements": [
            {"name": "rate", "value": 60.0, "expected": 60, "unit": "fps", "better": "higher",
             "series": [59, 60, 61]},
            {"name": "terrain", "value": 150, "expected": None, "unit": "fps", "better": "higher"},
            {"name": "shadow", "value": 843, "expected": None, "unit": "fps", "better": "higher"},
        ],
    }  # fmt: skip
    return {
        "record": 2, "board": "rock5b", "target": "serial", "started": "2026-12-01", "exit_status": 1,
        "image": {"sha256": "ab" * 32}, "lock": {"sha256": "cd" * 32}, "evidence": "hardware",
        "firmware": {"u-boot": "2025.01", "medium": "SD card"},
        "boot": {
            "stages": [["spl", 1.0], ["kernel", 2.5]],
            "findings": [{"name": "oops", "line": "Oops!", "seconds": 3}],
        },
        "manifest": {"kernel": {"release": "7.3.4"}, "tool": None}, "checks": [check], **more,
    }  # fmt: skip


LOG = [
    "    1.000  U-Boot 2025.01",
    "    6.600  7|[    6.6] radeon: ring 0 test failed (scratch(0x850C)=0xCAFEDEAD)",
    "    7.000  Oops!",
    "           # ",
]


def test_the_page_has_everything_and_its_links_lead_somewhere() -> None:
    text = report.page(record(), LOG)
    page = Page(text)
    for words in (
        "ring test of ring 0 failed",
        "look at the slot",
        "ab" * 32,
        "cd" * 32,
        "2025.01",
        "60.0 fps",
    ):
        assert words in page.text
    assert {"#L2", "#L3"} <= page.links
    assert {f"#{name}" for name in page.ids} >= page.links
    assert page.tags.count("svg") == 3  # stages, the rate's samples, the scenes side by side
    assert "2.50 s" in page.text


def checks(*outcomes: str) -> list[dict[str, Any]]:
    return [
        {"check": f"check {n}", "outcome": outcome, "evidence": "hardware", "detail": f"reason {n // 2}"}
        for n, outcome in enumerate(outcomes)
    ]


def test_what_is_wrong_stands_first_and_what_was_skipped_is_out_of_the_way() -> None:
    page = Page(report.page(record(checks=checks("pass", "skip", "skip", "skip", "error", "fail")), LOG))
    shown = [page.text.index(f"check {n}") for n in (5, 4, 0)]
    assert shown == sorted(shown)
    assert max(shown) < page.text.index("3 skipped, and why") < page.text.index("check 1")
    assert "check 2; check 3" in page.text  # for one reason
    assert "1 pass1 fail1 error3 skip" in page.text.replace("\n", "")


def test_an_outcome_that_is_none_is_the_labs() -> None:
    page = Page(report.page(record(checks=checks("great")), LOG))
    assert "1 error" in page.text
    assert "great" not in page.text


@pytest.mark.parametrize(
    ("started", "shown"),
    [
        ("2026-12-01T12:00:00+02:00", "serial, 2026-12-01 10:00 UTC"),
        ("2026-12-01T12:00:00", "serial, 2026-12-01T12:00:00"),
        ("today", "serial, today"),
    ],
)
def test_the_title_says_when_for_people(started: str, shown: str) -> None:
    assert shown in Page(report.page(record(started=started), LOG)).text


def test_labels_of_a_plot_do_not_run_into_each_other() -> None:
    def labels(*samples: float) -> list[str]:
        return re.findall(r'text-anchor="end">([^<]*)</text>', plots.line("t", samples, "fps"))

    assert labels(10, 60, 61) == ["0", "61", "10", "3"]  # and how many samples there are
    assert labels(59, 60, 61) == ["0", "61", "3"]


def test_the_page_needs_nothing_from_outside() -> None:
    text = report.page(record(), LOG)
    page = Page(text)
    assert "script" not in page.tags
    assert not [
        v for n, v in page.attributes if n in ("src", "srcset", "action", "data", "style", "background")
    ]
    assert all(link and link.startswith("#L") for link in page.links)
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://", text)


HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>",
    "</li></ol><h1>all well",
    "{{ 7*7 }}", "{% raw %}", "\x1b]0;title\x07", "\x00\x01\u202epassed", "&lt;b&gt;", "' onclick='x",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_board_says_stays_text(text: str) -> None:
    check = {**record()["checks"][0], "check": text, "detail": text, "hint": text, "lines": [text]}
    check["measurements"] = [{"name": text, "value": text, "expected": text, "unit": text},
                             {"name": text, "value": 1, "unit": text, "better": "higher"},
                             {"name": text, "value": 2, "unit": text, "better": "higher", "series": [1, 2]},
                             {"name": text, "value": 3, "unit": text, "better": "higher"}]  # fmt: skip
    made = record(
        checks=[check], board=text, evidence=text, firmware={text: text},
        boot={"stages": [[text, 1.0]], "findings": [{"name": text, "line": text}]},
    )  # fmt: skip
    page, plain = Page(report.page(made, [f"    1.000  {text}"])), Page(report.page(record(), LOG))
    assert set(page.tags) <= set(plain.tags)
    assert page.tags.count("h1") == 1
    assert {n for n, _ in page.attributes} <= {n for n, _ in plain.attributes}
    assert "#L1" in page.links
    assert report.visible(text).strip() in page.text
    assert not set("\x00\x01\x1b\x07\u202e") & set(page.text)


@settings(max_examples=50)
@given(st.text(), st.text())
def test_any_text_makes_a_page(said: str, detail: str) -> None:
    made = record(checks=[{**record()["checks"][0], "detail": detail, "lines": [said]}])
    page = Page(report.page(made, said.split("\n")))
    assert "script" not in page.tags
    assert set(page.tags) <= set(Page(report.page(record(), LOG)).tags)
    report.page(made, said.split("\n")).encode("utf-8")


def test_a_long_transcript_keeps_its_ends_and_what_is_linked() -> None:
    lines = [f"{i / 10:9.3f}  line {i}" for i in range(report.MOST_LINES + 5000)]
    middle = (report.MOST_LINES + 5000) // 2
    made = record(checks=[{**record()["checks"][0], "lines": [f"line {middle}"]}])
    page = Page(report.page(made, lines))
    assert f"#L{middle + 1}" in page.links
    assert f"L{middle + 1}" in page.ids
    assert f"L{middle + 9}" not in page.ids
    assert "4999 lines in the middle are left out" in page.text


def test_an_old_record_has_a_page_too() -> None:
    old = {"record": 1, "board": "rock5b", "target": "qemu", "started": "x", "exit_status": 0,
           "image": {"sha256": "a"}, "checks": []}  # fmt: skip
    assert "rock5b on qemu" in Page(report.page(old, [])).text


@given(st.lists(st.floats(), max_size=50))
def test_plots_take_any_numbers(values: list[float]) -> None:
    for svg in (
        plots.line("t", values, "u"),
        plots.bars("t", [("n", v) for v in values], "u"),
        plots.stages("t", [("n", v) for v in values]),
    ):
        assert "nan" not in svg
        assert "inf" not in svg.replace("information", "")
