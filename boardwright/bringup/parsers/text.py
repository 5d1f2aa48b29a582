"""Text from a board, made harmless: one bound on its size, one on a line, no terminal control."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MOST = 16 * 2**20
"""Characters read of one text; a kernel log buffer holds 1 MiB at most (kernel 7.3 ``LOG_BUF_SHIFT``)."""
LONGEST_LINE = 2000
"""Characters kept of a line; kernel messages end at 1024 (kernel 7.3 ``PRINTKRB_RECORD_MAX``)."""
MOST_ITEMS = 10_000
"""Things kept of one kind, such as frames or allocations."""

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{0,18})?")


def text(data: bytes | str, most: int = MOST) -> str:
    """At most ``most`` bytes or characters as text; what is no UTF-8 is replaced."""
    return data[:most].decode("utf-8", "replace") if isinstance(data, bytes) else data[:most]


def lines(data: bytes | str) -> Iterator[str]:
    """The lines of a text without terminal control; of one rewritten with carriage returns, the last form."""
    for line in text(data).split("\n"):
        short = line[:LONGEST_LINE].rstrip("\r")
        yield _CONTROL.sub("", _ESCAPE.sub("", short.rpartition("\r")[2]))


def number(text: str) -> float | None:
    """A decimal number at the beginning of ``text``; None when there is none, never beyond 1e18."""
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


def read_json(document: str) -> Any:
    """The value, or None when it is no JSON, or nested too deep to read."""
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        return None


def object_in(data: bytes | str, most: int = MOST) -> dict[str, Any] | None:
    """The JSON object that the whole of ``data`` is; None when it is something else."""
    whole = text(data, most)
    value = read_json(whole) if whole.lstrip().startswith("{") else None
    return value if isinstance(value, dict) else None
