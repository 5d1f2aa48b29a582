"""Text from a board, made harmless: one bound on its size, one on a line, no terminal control."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST = 16 * 2**20
"""Characters read of one text; a kernel log buffer holds 1 MiB at most (kernel 7.3 ``LOG_BUF_SHIFT``)."""
LONGEST_LINE = 2000
"""Characters kept of a line; kernel messages end at 1024 (kernel 7.3 ``PRINTKRB_RECORD_MAX``)."""
MOST_ITEMS = 10_000
"""Things kept of one kind, such as frames or allocations."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{0,18})?")


def lines(data: bytes | str) -> Iterator[str]:
    """The lines of a text without terminal control; of one rewritten with carriage returns, the last form."""
    text = data[:MOST].decode("utf-8", "replace") if isinstance(data, bytes) else data[:MOST]
    for line in text.split("\n"):
        short = line[:LONGEST_LINE].rstrip("\r")
        yield _CONTROL.sub("", _ESCAPE.sub("", short.rpartition("\r")[2]))


def number(text: str) -> float | None:
    """A decimal number at the beginning of ``text``; None when there is none, never infinite."""
    found = _NUMBER.match(text.strip())
    return float(found[0]) if found else None


def whole(text: str, base: int = 10) -> int | None:
    """All of ``text`` as an unsigned number; None when it is none, or has more than 64 bits."""
    digits = text.strip().removeprefix("0x") if base == 16 else text.strip()
    allowed = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if not digits or len(digits) > 20 or any(letter not in allowed for letter in digits):
        return None
    value = int(digits, base)
    return value if value < 2**64 else None
