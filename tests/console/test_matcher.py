"""Incremental matching finds what pexpect's search over the whole text finds."""

from __future__ import annotations

import re

import pexpect.expect
import pexpect.spawnbase
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.console import patterns, shell
from boardwright.console.channel import MOST_UNREAD, Channel, Unread
from boardwright.console.matcher import LONGEST_MATCH, bounded, literals
from boardwright.console.transcript import Transcript
from boardwright.console.watch import Watch

PATTERNS = [
    bounded(r"ab{1,3}c"),
    bounded(r"(^|\n)=> "),
    bounded(r"login: |assword: "),
    bounded(r"b(a|c)"),
    bounded(r"\d{2}"),
    bounded(r"(?i)PANIC"),
]


class Chunks:
    """A port that gives these, one a read, and then nothing for ever."""

    def __init__(self, chunks: list[str]) -> None:
        self.chunks, self.now = list(chunks), 0.0

    def read(self, seconds: float) -> bytes:
        if self.chunks:
            return self.chunks.pop(0).encode()
        self.now += seconds
        return b""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


def channel(chunks: list[str]) -> Channel:
    port = Chunks(chunks)
    return Channel(port, Transcript(None), Watch(), lambda: port.now)


@given(st.lists(st.text("abc=> \nlogin: pPanic12", max_size=30), max_size=20))
def test_the_same_places_in_the_same_order_as_pexpect(chunks: list[str]) -> None:
    ours, board = [], channel(chunks)
    while found := board.find(PATTERNS, 1.0):
        ours.append((found[0], found[1], board.matched().group()))
    theirs, spawn = [], pexpect.spawnbase.SpawnBase(encoding="utf-8")
    left = list(chunks)
    while True:
        expecter = pexpect.expect.Expecter(spawn, pexpect.expect.searcher_re(PATTERNS))
        index = expecter.existing_data()
        while index is None and left:
            index = expecter.new_data(left.pop(0))
        if index is None:
            break
        theirs.append((index, spawn.before, spawn.after))
    assert ours == theirs


def test_a_match_early_in_a_long_read_is_found() -> None:
    """pexpect with searchwindowsize 512 looks at the last 512 characters of a read only, and misses it."""
    board = channel(["=> " + "x" * 4000])
    assert board.find([bounded("=> x")], 1.0) == (0, "")


def test_a_match_over_the_edges_of_many_reads_is_found() -> None:
    long = "a" + "b" * (LONGEST_MATCH - 2) + "c"
    board = channel(["x" * 5000, *long, "y"])
    assert board.find([bounded(f"ab{{1,{LONGEST_MATCH - 2}}}c")], 1.0) == (0, "x" * 5000)


@pytest.mark.parametrize("text", ["a.*b", "a+", r"(ab)*c", "a{2,}"])
def test_unbounded_patterns_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not bounded"):
        bounded(text)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"Kernel panic - not", ("Kernel panic - not",)),
        (r"a\d{1,3}bcd", ("bcd",)),
        (r"foo|barbaz", ("foo", "barbaz")),
        (r"x?y?", ()),
        (r"(?i)abc", ()),
        (r"(long word|other){0,1}ab", ("ab",)),
    ],
)
def test_the_literals_a_match_must_hold(pattern: str, words: tuple[str, ...]) -> None:
    assert set(literals(re.compile(pattern))) == set(words)


def test_every_pattern_of_the_console_has_a_literal_or_is_a_short_prompt() -> None:
    without = [f.name for f in patterns._FAILURES if not literals(f.pattern)]
    assert without == []
    assert literals(shell.PROMPT) == ("bw# ",)


def test_what_is_kept_is_bounded() -> None:
    unread = Unread()
    for _ in range(40):
        unread.add("x" * (MOST_UNREAD // 10))
    assert len(unread.text()) <= MOST_UNREAD
    assert unread.tail(10) == "x" * 10
