"""Whether the patches of every topic apply to every source line, and what stands in the way.

Topics are judged one after the other, as a build applies them (``patches/<collection>/order``), and each also
alone on the pristine source. A topic that fails leaves no trace for the topics after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardwright.errors import InputError, InputErrors, Place
from boardwright.patches import hunks
from boardwright.patches.hunks import Outcome, lines_of
from boardwright.patches.lines import Line
from boardwright.patches.pristine import Note, Pristine, pristine
from boardwright.patches.series import Absent, in_order, read, topics

Texts = dict[str, str | None]
"""Files that patches changed so far; None: removed."""


@dataclass(frozen=True, slots=True)
class Side:
    """Some lines of a text; ``first`` counts from 1."""

    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first hunk of a patch that does not apply, and both sides of it."""

    patch: str
    path: str
    hunk: int
    state: str
    """``conflict``, ``fuzz`` or ``already``, as :class:`~boardwright.patches.hunks.Outcome` has them."""
    expected: Side
    found: Side | None
    """Where the source is most like it; None when the file is not there, or nothing in it is alike."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """One patch on one line; ``offset`` is the largest, in lines, without its sign."""

    name: str
    state: str
    """``applies``, ``fuzz``, ``upstream`` (all of it is there already), ``partly`` or ``conflict``."""
    offset: int = 0
    conflict: Conflict | None = None
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One topic on one line."""

    line: Line
    topic: str
    state: str
    """``applies``, ``offsets``, ``absent``, or of the first patch that does not apply its own; ``wrong``
    when the series itself is."""
    reason: str = ""
    """Of ``absent`` and ``wrong``."""
    patches: tuple[Applied, ...] = ()
    alone: bool = True
    """Whether the topic applies without those before it."""

    @property
    def green(self) -> bool:
        return self.state in ("applies", "offsets", "absent")

    @property
    def failure(self) -> Applied | None:
        return next((patch for patch in self.patches if patch.state != "applies"), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A topic of one line as the project has it: its patches by name, or what is wrong with them."""

    topic: str
    patches: Mapping[str, hunks.Patch]
    absent: str = ""
    wrong: str = ""


def asked(root: Path, line: Line, known: Sequence[str]) -> list[Asked]:
    """The topics of a line's collection in the order of a build. Reads the project only."""
    names = in_order(root, line.collection, topics(root, line.collection))
    return [_asked(root, line, topic, known) for topic in names]


def _asked(root: Path, line: Line, topic: str, known: Sequence[str]) -> Asked:
    try:
        found = read(root, line.collection, topic, known).of(line.name)
        if isinstance(found, Absent):
            return Asked(topic, {}, absent=found.reason)
        return Asked(topic, {name: patch(root, line.collection, topic, name) for name in found})
    except InputErrors as error:
        return Asked(topic, {}, wrong=str(error.errors[0]))
    except InputError as error:
        return Asked(topic, {}, wrong=str(error))


def patch(root: Path, collection: str, topic: str, name: str) -> hunks.Patch:
    """A patch file, read. Raises ``InputError`` at its place when it is no unified diff."""
    file = Path("patches") / collection / topic / name
    return parsed((root / file).read_bytes(), str(file))


def parsed(content: bytes, file: str) -> hunks.Patch:
    try:
        return hunks.parse(content.decode("utf-8", errors="surrogateescape"))
    except hunks.DiffError as error:
        raise InputError(str(error), place=Place(file), hint="write it with `invoke patch refresh`") from None


def judge(line: Line, topics: Sequence[Asked], cache: Path, note: Note) -> list[Verdict]:
    """Every topic on one line. Raises ``HostError`` and ``IntegrityError`` of the download."""
    source = pristine(line, paths_of(topics), cache, note)
    return list(judged(source, topics))


def paths_of(topics: Sequence[Asked]) -> list[str]:
    """Every file that the topics touch."""
    return [path for topic in topics for patch in topic.patches.values() for path in patch.paths]


def judged(source: Pristine, topics: Sequence[Asked]) -> Iterator[Verdict]:
    """The verdicts on a source at hand."""
    texts: Texts = {}
    for topic in topics:
        verdict, after = apply_topic(source, texts, topic)
        if verdict.green:
            texts = after
        alone = not verdict.patches or apply_topic(source, {}, topic)[0].green
        yield replace(verdict, alone=alone)


def apply_topic(source: Pristine, texts: Texts, topic: Asked) -> tuple[Verdict, Texts]:
    """The verdict on one topic, and the texts after it; patches after one that fails are not tried."""
    if topic.absent or topic.wrong:
        state = "absent" if topic.absent else "wrong"
        return Verdict(source.line, topic.topic, state, topic.absent or topic.wrong), texts
    done: list[Applied] = []
    for name, one in topic.patches.items():
        applied, texts = apply_patch(source, texts, name, one)
        done.append(applied)
        if applied.state != "applies":
            break
    state = done[-1].state
    if state == "applies" and any(one.offset for one in done):
        state = "offsets"
    return Verdict(source.line, topic.topic, state, patches=tuple(done)), texts


def apply_patch(source: Pristine, texts: Texts, name: str, one: hunks.Patch) -> tuple[Applied, Texts]:
    """One patch, whole or not at all, on ``texts`` over the pristine source."""
    after, outcomes = dict(texts), list[Outcome]()
    before: dict[str, str | None] = {}
    for file in one.files:
        path = file.path
        now = after[path] if path in after else source.read(path)
        before.setdefault(path, now)
        after[path], of_file = hunks.apply(file, now)
        outcomes += of_file
    states = {outcome.state for outcome in outcomes}
    offset = max((abs(outcome.found.offset) for outcome in outcomes if outcome.found), default=0)
    if states == {"applies"}:
        return Applied(name, "applies", offset, outcomes=tuple(outcomes)), after
    bad = next(outcome for outcome in outcomes if outcome.state == _worst(states))
    conflict = _conflict(name, bad, before[bad.path])
    state = "upstream" if states == {"already"} else {"already": "partly"}.get(bad.state, bad.state)
    return Applied(name, state, offset, conflict, tuple(outcomes)), texts


def _worst(states: set[str]) -> str:
    return next(state for state in ("conflict", "fuzz", "already") if state in states)


def _conflict(name: str, bad: Outcome, text: str | None) -> Conflict:
    hunk = bad.hunk
    expected = Side(hunk.first, hunk.old)
    if text is None:
        return Conflict(name, bad.path, hunk.number, bad.state, expected, None, "the source has no such file")
    lines = lines_of(text)
    if bad.state == "conflict" and not hunk.old:
        return Conflict(name, bad.path, hunk.number, bad.state, expected, None, "the file is there already")
    if bad.state == "already" and bad.found:
        place: tuple[int, int] | None = (bad.found.at, len(hunk.new))
    elif bad.state == "fuzz" and bad.found:
        place = (max(bad.found.at, 1), len(hunk.old))
    else:
        place = hunks.region(hunk, lines)
    if place is None:
        return Conflict(name, bad.path, hunk.number, bad.state, expected, None, "nothing in it is alike")
    first, size = place
    found = Side(first, tuple(lines[first - 1 : first - 1 + size]))
    detail = f"it would apply with fuzz {bad.found.fuzz}" if bad.state == "fuzz" and bad.found else ""
    return Conflict(name, bad.path, hunk.number, bad.state, expected, found, detail)
