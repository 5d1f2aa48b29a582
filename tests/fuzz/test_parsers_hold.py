"""No parser may crash, hang or keep much, whatever a board prints.

The inputs are the real formats, torn, spliced and sprinkled with hostile bytes: random bytes alone would
never come past a parser's first word. Lines that make a careless pattern quadratic are tried too; no time
is measured here, a hang is the failure.
"""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parsers import PARSERS

from boardwright.bringup.parsers import text

LOGS = sorted((Path(__file__).parents[1] / "bringup/data/logs").iterdir())
SEEDS = [path.read_bytes() for path in LOGS]
LINES = sorted({line for seed in SEEDS for line in seed.split(b"\n") if line})

hostile = st.sampled_from(
    [b"\x00", b"\x1b[31m", b"\x1b]0;", b"\r", b"\xff\xfe", b"9" * 400, b"0x" + b"f" * 80, b"(" * 50,
     b"{" * 2000, b"[" * 3000, b" " * 500, "\N{ARABIC-INDIC DIGIT THREE}".encode() * 5, b"-", b": ", b"1e999",
     b"NaN", b"\n"]
)  # fmt: skip
pieces = st.one_of(st.sampled_from(LINES), hostile, st.binary(max_size=40))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Lines of the formats, some cut, joined by line feeds or by nothing."""
    parts = draw(st.lists(pieces, max_size=30))
    cut = [part[: draw(st.integers(0, len(part)))] if draw(st.booleans()) else part for part in parts]
    return draw(st.sampled_from([b"\n", b"", b"\r\n", b" "])).join(cut)


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=40)
@given(data=logs())
def test_no_input_makes_a_parser_fail(name: str, data: bytes) -> None:
    PARSERS[name](data)


@pytest.mark.parametrize("name", PARSERS)
def test_every_format_goes_through_every_parser(name: str) -> None:
    for seed in SEEDS:
        PARSERS[name](seed)


@pytest.mark.parametrize("name", PARSERS)
def test_long_lines_are_no_trap(name: str) -> None:
    for unit in [b" ", b"0", b"9.", b"a", b"(", b"[", b"-", b": ", b"ring ", b"0x1(", b"\t"]:
        for begin in LINES[:: max(len(LINES) // 12, 1)]:
            PARSERS[name](begin + unit * (2000 // len(unit)))


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_kept_is_bounded(name: str) -> None:
    """20,000 lines of every format: the result is small beside them (in bytes that Python allocates)."""
    order = random.Random(5)
    data = b"\n".join(order.choice(LINES) for _ in range(20_000))
    tracemalloc.start()
    kept = PARSERS[name](data)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept is not None or name in ("memory", "boot_time", "tokens ax", "tokens llama", "tokens rknn")
    assert used < 24 * 2**20


def test_the_bounds_of_text() -> None:
    assert sum(len(line) for line in text.lines("x" * (text.MOST + 5))) == text.LONGEST_LINE
    assert list(text.lines(b"a\rb\n\x1b[1mc\x1b[0m\x00\r\nd")) == ["b", "c", "d"]


@given(st.text(max_size=40))
@example("9" * 40)  # 18 digits are read, and a float rounds them up
def test_numbers_are_numbers_or_nothing(word: str) -> None:
    value = text.number(word)
    assert value is None or abs(value) <= 1e18
    count = text.whole(word)
    assert count is None or 0 <= count < 2**64
