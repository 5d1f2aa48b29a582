"""Searching a growing text for many patterns, at a cost per byte that does not grow with what was received.

Each pattern is bounded, so a match can begin at most :data:`~boardwright.console.patterns.LONGEST_MATCH`
characters before the new text: only the new text and that tail are looked at. Before a pattern is run, the
longest literal that every match must hold is looked for, as ``str.find`` does by memchr and a two-way search;
most lines of a console hold none. The result is that of pexpect's ``searcher_re`` over the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

LONGEST_MATCH = 512
"""Characters; no pattern may need more, so a tail of this size never misses a match."""


def bounded(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern that can match at most :data:`LONGEST_MATCH` characters.

    Raises ``ValueError`` for ``.*`` and its like: they swallow whatever a noisy line delivers, and their
    meaning changes with how much of it has been read.
    """
    longest = _parser.parse(pattern, flags).getwidth()[1]
    if longest > LONGEST_MATCH:
        raise ValueError(f"pattern {pattern!r} is not bounded: give each repeat a limit, such as {{0,80}}")
    return re.compile(pattern, flags)


@lru_cache(maxsize=1024)
def literals(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Literals of which every match holds at least one; empty when nothing can be said."""
    if pattern.flags & re.IGNORECASE:
        return ()
    return _required(_parser.parse(pattern.pattern, pattern.flags))


def _required(tokens: Any) -> tuple[str, ...]:
    """The choice of literals whose shortest member is longest, among those the sequence must contain."""
    choices: list[tuple[str, ...]] = []
    run = ""
    for kind, value in tokens:
        if kind is _constants.LITERAL:
            run += chr(value)
            continue
        choices.append((run,) if run else ())
        run = ""
        if kind is _constants.SUBPATTERN:
            choices.append(() if value[1] & re.IGNORECASE else _required(value[3]))
        elif kind is _constants.BRANCH:
            branches = [_required(branch) for branch in value[1]]
            choices.append(tuple(word for words in branches for word in words) if all(branches) else ())
        elif kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and value[0] > 0:
            choices.append(_required(value[2]))
    choices.append((run,) if run else ())
    return max(choices, key=lambda words: min(map(len, words), default=0))


class Matcher:
    """Searches for the first of ``patterns``; on a tie of places, the one named first wins."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = [(index, pattern, literals(pattern)) for index, pattern in enumerate(patterns)]

    def search(self, window: str) -> tuple[int, re.Match[str]] | None:
        """Which pattern, and its match in ``window``."""
        best: tuple[int, re.Match[str]] | None = None
        for index, pattern, words in self._patterns:
            if words:
                for word in words:
                    if word in window:
                        break
                else:
                    continue
            match = pattern.search(window)
            if match and (best is None or match.start() < best[1].start()):
                best = index, match
        return best
