"""Commits back to patch files, with stable names and without noise; all files are written, or none.

- A commit keeps the file it came from: by its note (:mod:`boardwright.patches.gitstream`), else by subject.
- A patch whose commit says and does what the file does stays as it is, byte for byte.
- A changed patch that other lines share replaces the shared file when it applies there too, and so does all
  that follows it; otherwise it becomes ``NNNN-slug.<line>.patch``, for this line only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boardwright.errors import InputError
from boardwright.patches import status
from boardwright.patches.archive import text
from boardwright.patches.commits import Committed, committed, require_ours
from boardwright.patches.gitstream import message
from boardwright.patches.hunks import DiffError
from boardwright.patches.hunks import parse as parse_patch
from boardwright.patches.lines import Line
from boardwright.patches.pristine import Note
from boardwright.patches.sections import rewritten
from boardwright.patches.series import SERIES, Series, parse, read
from boardwright.patches.write import write_all

Files = Mapping[str, bytes]
"""The patch files of a topic by name."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What became of the files of ``patches/<collection>/<topic>``."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Others:
    """The other lines of a topic, to ask whether a changed patch still applies there."""

    root: Path
    topic: str
    lines: Sequence[Line]
    names: Sequence[str]
    cache: Path
    note: Note

    def failure(self, line: Line, files: Files, used: Sequence[str]) -> str | None:
        """The first of the patches ``used`` that does not apply to ``line``, with ``files`` in the topic."""
        asked = status.asked(self.root, line, self.names)
        changed = {name: status.parsed(files[name], name) for name in used}
        topics = [replace(one, patches=changed) if one.topic == self.topic else one for one in asked]
        verdicts = status.judge(line, topics, self.cache, self.note)
        verdict = next(verdict for verdict in verdicts if verdict.topic == self.topic)
        return verdict.failure.name if verdict.failure else None


def refresh(
    root: Path, line: Line, topic: str, directory: Path, known: Sequence[Line], cache: Path, note: Note
) -> Refreshed:
    """Write the commits of ``directory`` back. Raises ``InputError`` for what cannot be written back."""
    require_ours(directory, line, topic)
    around = [other for other in known if other.collection == line.collection]
    names = [other.name for other in around]
    home = root / "patches" / line.collection / topic
    files = {path.name: path.read_bytes() for path in sorted(home.glob("*.patch"))}
    series = read(root, line.collection, topic, names)
    commits = _named(committed(directory), topic, series.patches(line.name), files)
    if not commits:
        raise InputError(
            f"there is no commit of {topic} in {directory}",
            hint=f"a line that needs no patches says so: none: <reason> below [{line.name}] in its series",
        )
    texts = {name: commit.patch(files.get(name)) for name, commit in commits.items()}
    changed = {name: content for name, content in texts.items() if content != files.get(name)}
    others = Others(root, topic, [one for one in around if one is not line], names, cache, note)
    shared = shareable(others, series, files, changed)
    final: dict[str, str] = {}
    for name in commits:
        alone = name in changed and name not in shared
        final[name] = _own(name, line.name, files) if alone else name
    contents = {final[name]: content for name, content in changed.items()}
    return _write(home, series, line.name, names, files, contents, list(final.values()))


def _write(
    home: Path,
    series: Series,
    line: str,
    known: Sequence[str],
    files: Files,
    changed: Files,
    final: Sequence[str],
) -> Refreshed:
    before = (home / SERIES).read_text(encoding="utf-8")
    after = rewritten(before, series, line, final, known)
    there = {*files, *changed}
    used = parse(after, series.file, there, known, stray=True).named
    removed = tuple(sorted(set(files) - used))
    writes = {home / name: content for name, content in changed.items()}
    if after != before:
        writes[home / SERIES] = after.encode()
    write_all(writes, [home / name for name in removed])
    written = tuple(sorted(path.name for path in writes))
    return Refreshed(written, removed, tuple(name for name in final if name not in changed))


def _named(
    commits: Sequence[Committed], topic: str, had: Sequence[str], files: Files
) -> dict[str, Committed]:
    """The commits in order, each under the name of its file."""
    found: dict[int, str] = {}
    subjects = {name: _subject(files[name]) for name in [*had, *files]}
    for index, commit in enumerate(commits):
        name = commit.note.removeprefix(f"{topic}/")
        if name in files and name not in found.values():
            found[index] = name
    for index, commit in enumerate(commits):
        fitting = (name for name, subject in subjects.items() if subject == commit.message.subject)
        name = next((name for name in fitting if name not in found.values()), "")
        if index not in found and name:
            found[index] = name
    for index, commit in enumerate(commits):
        if index not in found:
            found[index] = _new_name(index + 1, commit.message.subject, {*files, *found.values()})
    return {found[index]: commit for index, commit in enumerate(commits)}


def _subject(content: bytes) -> str:
    try:
        return message(parse_patch(text(content)).head, "").subject
    except DiffError:
        return ""


def _new_name(place: int, subject: str, taken: set[str]) -> str:
    """``NNNN-slug.patch``: its place in the series when that number is free, else the next after all."""
    numbers = {int(match[0]) for name in taken if (match := re.match(r"\d{4}", name))}
    number = place if place not in numbers else max(numbers) + 1
    words = re.sub(r"[^a-z0-9]+", "-", subject.rpartition(": ")[2].lower()).strip("-")
    slug = words if len(words) <= 40 else words[:41].rpartition("-")[0]
    return f"{number:04}-{slug or 'patch'}.patch"


def _own(name: str, line: str, files: Files) -> str:
    """The name for a text that is this line's only."""
    stem = re.sub(r"(\.\d+\.\d+(-only)?)?\.patch$", "", name)
    own = f"{stem}.{line}.patch"
    return own if own != name or own not in files else f"{stem}.{line}-only.patch"


def shareable(others: Others, series: Series, files: Files, changed: Files) -> set[str]:
    """Those of the ``changed`` files that may be written under their own names.

    A file of no other line may. Of the rest, all that apply to every line that uses them; while one line
    does not take them, the first of them that stands in the way is given up. Lines on which the topic does
    not apply as it is have no say.
    """
    using = {line: series.patches(line.name) for line in others.lines}
    using = {line: names for line, names in using.items() if set(names) & set(changed)}
    asked = {
        line: names for line, names in using.items() if names and others.failure(line, files, names) is None
    }
    shared = set(changed)
    while True:
        files_now = {**files, **{name: changed[name] for name in shared}}
        failed = ((names, others.failure(line, files_now, names)) for line, names in asked.items())
        in_the_way = (_last_before(names, name, shared) for names, name in failed if name is not None)
        given_up = next((name for name in in_the_way if name is not None), None)
        if given_up is None:
            return shared
        shared.discard(given_up)


def _last_before(names: Sequence[str], failed: str, shared: set[str]) -> str | None:
    """The changed patch because of which ``failed`` does not apply: itself, or the nearest before it."""
    before = [name for name in names[: names.index(failed) + 1] if name in shared]
    return before[-1] if before else None
