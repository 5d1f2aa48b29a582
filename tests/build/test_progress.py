"""What a build shows: plain lines, live lines, and never a control character of a log."""

from __future__ import annotations

import io
import os
import pty
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.build.progress import LiveProgress, Progress, duration, for_terminal, printable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0.0 s"), (4.24, "4.2 s"), (59.9, "59.9 s"), (59.99, "1 min 00 s"), (185, "3 min 05 s")),
        *((3599, "59 min 59 s"), (3599.9, "1 h 00 min"), (4325, "1 h 12 min")),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.text())
def test_whatever_a_log_holds_what_is_shown_is_printable(text: str) -> None:
    assert all(c.isprintable() for c in printable(text))


@given(st.text(st.characters(categories=["L", "N", "P"])))
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]52;c;clipboard\x1b\\text", "text"),
        ("\x1b[2Jgone\x1b[1;1H", "gone"),
        ("\x1bcreset", "reset"),
        ("100%\r", "100% "),
        ("a\tb", "a       b"),
        ("\x9b31m", " 31m"),
        ("\u202ehidden", " hidden"),
    ],
)
def test_sequences_that_move_colour_or_rename_are_taken_out(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_plain_progress_says_start_end_and_notes_one_line_each() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.started("kernel", "Linux 7.3")
        progress.line("kernel", "CC main.o")
        progress.note("a note")
        progress.finished("kernel", 65)
        progress.failed("image", 1)
    assert stream.getvalue().splitlines() == [
        "  kernel: Linux 7.3",
        "a note",
        "  kernel: done in 1 min 05 s",
        "  image: failed after 1.0 s",
    ]


def _on_terminal(monkeypatch: pytest.MonkeyPatch, use: str) -> str:
    """What a terminal receives while live progress runs."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    outer, inner = pty.openpty()
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                heard.append(os.read(outer, 4096))
            except OSError:
                return

    listener = threading.Thread(target=listen)
    listener.start()
    with open(inner, "w") as stream:  # noqa: PTH123 - a descriptor
        progress = for_terminal(stream)
        assert isinstance(progress, LiveProgress)
        with progress:
            progress.started("kernel", "Linux [7.3]")
            progress.line("kernel", use)
            progress._live.refresh()
            progress.note("a note with [brackets]")
            progress.finished("kernel", 1)
    listener.join(5)
    os.close(outer)
    return b"".join(heard).decode()


def test_live_progress_shows_the_last_line_and_gives_the_cursor_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = _on_terminal(monkeypatch, "CC [M] main.o\x1b]0;title\x07\x1b[2J")
    assert "kernel" in said
    assert "CC [M] main.o" in said
    assert "a note with [brackets]" in said
    assert "Linux [7.3]" in said
    assert "\x1b]0;" not in said
    assert "\x1b[2J" not in said
    assert said.rfind("\x1b[?25l") < said.rfind("\x1b[?25h")


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}])
def test_a_terminal_that_cannot_redraw_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outer, inner = pty.openpty()
    with open(inner, "w") as stream:  # noqa: PTH123 - a descriptor
        assert type(for_terminal(stream)) is Progress
    os.close(outer)


def test_a_file_gets_plain_lines(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        assert type(for_terminal(stream)) is Progress
