"""Unified diffs: read, and found in a text the way GNU patch finds them. Pure: texts in, texts out.

What a build applies is decided by ``patch --fuzz=0`` (``boardwright/sealed/patchtree.py``); this module
says beforehand, for every hunk, what that will find, and what stands in the place of one that fails. The
search is that of ``locate_hunk`` in patch 2.7's ``patch.c``: near the expected line first, forwards before
backwards, never before the hunk above; a hunk with less context on one side belongs to that end of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MOST_FUZZ = 3
"""Context lines that a search for "would apply with fuzz" ignores at most: the context of a diff."""


class DiffError(Exception):
    """A text is not the unified diff that it should be; says what and in which line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines with their ends, as ``old`` and ``new``; ``first`` counts from 1 in the old file."""

    number: int
    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    before: int
    """Context lines at the start."""
    after: int
    """Context lines at the end."""

    @property
    def reverse(self) -> Hunk:
        return Hunk(self.number, self.first, self.new, self.old, self.before, self.after)


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The hunks of one file. ``creates`` and ``removes``: one side is ``/dev/null``."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    removes: bool = False


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch file: its head (a commit message) and its files, each path once or more."""

    head: str
    files: tuple[FileDiff, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.path for file in self.files))


def lines_of(text: str) -> list[str]:
    """Lines with their line feeds, which alone end a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def parse(text: str) -> Patch:
    """A patch from its text. Raises ``DiffError``."""
    lines = lines_of(text)
    starts = list(_file_starts(lines))
    if not starts:
        raise DiffError("no file header (--- a/… +++ b/…) found")
    head = "".join(lines[: starts[0]])
    ends = [*starts[1:], len(lines)]
    return Patch(head, tuple(_file(lines, a, b) for a, b in zip(starts, ends, strict=True)))


def _file_starts(lines: Sequence[str]) -> Iterator[int]:
    """Indices of ``---`` headers; the counts of hunks tell them from removed lines that look so."""
    index = 0
    while index < len(lines):
        if match := HEAD.match(lines[index]):
            index = _hunk_end(lines, index, match)
            continue
        if (
            lines[index].startswith("--- ")
            and lines[index + 1 : index + 2]
            and lines[index + 1].startswith("+++ ")
        ):
            yield index
        elif lines[index].startswith(("GIT binary patch", "rename from ", "copy from ")):
            raise DiffError(f"line {index + 1}: only plain unified diffs are supported")
        index += 1


def _hunk_end(lines: Sequence[str], index: int, match: re.Match[str]) -> int:
    old, new = (int(match[group] or 1) if match[group] != "0" else 0 for group in (2, 4))
    start = index
    index += 1
    while old > 0 or new > 0:
        if index >= len(lines) or lines[index][:1] not in (" ", "+", "-", "\n", "\\"):
            raise DiffError(f"line {start + 1}: the hunk is shorter than its head says")
        if lines[index][:1] != "\\":
            old -= lines[index][:1] != "+"
            new -= lines[index][:1] != "-"
        index += 1
    return index + 1 if lines[index : index + 1] and lines[index].startswith("\\") else index


def _file(lines: Sequence[str], start: int, end: int) -> FileDiff:
    old, new = (_name(lines[start + offset]) for offset in (0, 1))
    hunks: list[Hunk] = []
    index = start + 2
    while index < end and (match := HEAD.match(lines[index])):
        after = _hunk_end(lines, index, match)
        hunks.append(_hunk(len(hunks) + 1, match, lines[index + 1 : after]))
        index = after
    if not hunks:
        raise DiffError(f"line {start + 3}: no hunk (@@ …) follows the file header")
    path = old if new == "/dev/null" else new
    parts = path.split("/")[1:]
    if not parts or ".." in parts or path.startswith(("/", '"')):
        raise DiffError(f"line {start + 1}: {path!r} is not a path inside the source")
    return FileDiff("/".join(parts), tuple(hunks), old == "/dev/null", new == "/dev/null")


def _name(header: str) -> str:
    return header[4:].split("\t", 1)[0].rstrip()


def _hunk(number: int, match: re.Match[str], body: Sequence[str]) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    signs: list[str] = []
    for line in body:
        sign, text = line[:1].replace("\n", " "), line[1:] or "\n"
        if sign == "\\":
            for side, also in ((old, "-"), (new, "+")):
                if side and signs[-1] in (" ", also):
                    side[-1] = side[-1].removesuffix("\n")
            continue
        signs.append(sign)
        if sign != "+":
            old.append(text)
        if sign != "-":
            new.append(text)
    changed = [index for index, sign in enumerate(signs) if sign != " "]
    if not changed:
        raise DiffError(f"hunk {number} of a file changes nothing")
    first = int(match[1]) + (not old)
    return Hunk(number, first, tuple(old), tuple(new), changed[0], len(signs) - 1 - changed[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """Where a hunk was found: ``at`` counts from 1; ``offset`` from where it was expected."""

    at: int
    offset: int
    fuzz: int = 0


def locate(hunk: Hunk, lines: Sequence[str], shift: int = 0, frozen: int = 0, fuzz: int = 0) -> Found | None:
    """``hunk.old`` in ``lines``. ``shift``: the offset of the hunk above; ``frozen``: its last line."""
    guess, size = hunk.first + shift, len(hunk.old)
    context = max(hunk.before, hunk.after)
    start, end = fuzz + hunk.before - context, fuzz + hunk.after - context
    if size == 0:
        return Found(guess, shift) if guess <= len(lines) + 1 else None

    def matches(at: int) -> bool:
        wanted = hunk.old[max(start, 0) : size - max(end, 0)]
        first = at - 1 + max(start, 0)
        return tuple(lines[first : first + len(wanted)]) == wanted

    last = len(lines) - (size - max(end, 0)) + 1
    if start < 0 and hunk.first <= 1:
        whole = end >= 0 or (size == len(lines) and hunk.before >= frozen)
        fits = whole and frozen <= hunk.before and last >= 1 and matches(1)
        return Found(1, 1 - hunk.first, fuzz) if fits else None
    if end < 0:
        at = len(lines) - size + 1
        return Found(at, at - hunk.first, fuzz) if at > frozen and at >= 1 and matches(at) else None
    for distance in range(max(abs(last - guess), abs(guess - frozen)) + 1):
        for at in (guess + distance, guess - distance):
            if max(frozen, 0) < at <= last and matches(at):
                return Found(at, at - hunk.first, fuzz)
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one hunk: ``applies``, ``fuzz``, ``already`` (its result is there) or ``conflict``."""

    path: str
    hunk: Hunk
    state: str
    found: Found | None = None


def apply(file: FileDiff, text: str | None) -> tuple[str | None, list[Outcome]]:
    """Apply the hunks that match exactly to ``text`` (None: no such file); say what became of each.

    A file that a patch creates must not be there; one that it removes must hold what it removes.
    """
    if file.creates or text is None:
        return _create(file, text)
    lines, outcomes = lines_of(text), list[Outcome]()
    result: list[str] = []
    shift = frozen = done = 0
    for hunk in file.hunks:
        found = locate(hunk, lines, shift, frozen)
        if found is None:
            outcomes.append(Outcome(file.path, hunk, *_why_not(hunk, lines, shift, frozen)))
            continue
        shift, frozen = found.offset, found.at + len(hunk.old) - 1
        result += [*lines[done : found.at - 1], *hunk.new]
        done = found.at - 1 + len(hunk.old)
        outcomes.append(Outcome(file.path, hunk, "applies", found))
    result += lines[done:]
    gone = file.removes and not result
    return (None if gone else "".join(result)), outcomes


def _create(file: FileDiff, text: str | None) -> tuple[str | None, list[Outcome]]:
    whole = "".join(line for hunk in file.hunks for line in hunk.new)
    if text is None and file.creates:
        return whole, [Outcome(file.path, hunk, "applies", Found(1, 0)) for hunk in file.hunks]
    state = "already" if text == whole or (text is None and file.removes) else "conflict"
    return text, [Outcome(file.path, hunk, state) for hunk in file.hunks]


def _why_not(hunk: Hunk, lines: Sequence[str], shift: int, frozen: int) -> tuple[str, Found | None]:
    if there := locate(hunk.reverse, lines, shift, frozen):
        return "already", there
    for fuzz in range(1, min(MOST_FUZZ, max(hunk.before, hunk.after)) + 1):
        if there := locate(hunk, lines, shift, frozen, fuzz):
            return "fuzz", there
    return "conflict", None


_WORD = re.compile(r"\w{3,}")


def region(hunk: Hunk, lines: Sequence[str]) -> tuple[int, int] | None:
    """The lines most like ``hunk.old``: the first from 1, and how many; None when nothing is alike.

    Every word that both have votes for the shift between its two places; a word that stands in the file
    often counts little. Of the best shifts the one with the most words in the same order wins.
    """
    import difflib
    from collections import Counter, defaultdict

    where: defaultdict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        for word in set(_WORD.findall(line)):
            where[word].append(number)
    votes: Counter[int] = Counter()
    for index, line in enumerate(hunk.old):
        for word in set(_WORD.findall(line)):
            for number in where[word]:
                votes[number - index] += 10_000 // len(where[word]) ** 2
    size = len(hunk.old)
    words = _WORD.findall("".join(hunk.old))
    best = (0.0, 0)
    for at, _ in sorted(votes.most_common(8), key=lambda vote: abs(vote[0] - hunk.first)):
        first = min(max(at, 1), max(len(lines) - size + 1, 1))
        there = _WORD.findall("".join(lines[first - 1 : first - 1 + size]))
        ratio = difflib.SequenceMatcher(None, words, there, autojunk=False).ratio()
        best = max(best, (ratio, first), key=lambda one: one[0])
    return (best[1], min(size, len(lines))) if best[1] else None
