"""A topic of one line as a git repository: the pristine source, the topics before it, and its patches.

One commit a patch, each with its message; the branch is called ``<topic>-<line>``. Where a patch does not
apply, the line nearest to this one on which it does is brought in as a branch ``from-<line>`` (the touched
files only), and the rest is cherry-picked from there: a conflict is then git's, with both sides in the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError
from boardwright.patches import git
from boardwright.patches.archive import Member, members, raw
from boardwright.patches.gitstream import DEVELOPERS, Change, Commit, Tree, message, stream
from boardwright.patches.lines import Line, numbers
from boardwright.patches.pristine import Note, Pristine, downloaded, pristine
from boardwright.patches.status import Applied, Asked, Texts, apply_patch, apply_topic, asked, paths_of

BASE, MADE = "refs/boardwright/base", "refs/boardwright/made"
"""The commit before the topic's first, and the last one that edit made."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A repository that was made. ``conflict`` is the first patch that must be resolved in it by hand."""

    directory: Path
    branch: str
    conflict: Applied | None = None
    merging: str = ""
    """The line the rest is cherry-picked from; '' when there is none."""
    skipped: tuple[str, ...] = ()
    """Topics before this one that do not apply, and so are not there."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """Where the patches that do not apply are taken from: the last ``count`` commits of another line."""

    line: Line
    files: list[Member]
    commits: list[Commit]
    count: int


@dataclass(frozen=True, slots=True)
class _Work:
    """What goes into a repository: the commits of the topics before, the topic's own, and what is left."""

    before: list[Commit]
    own: list[Commit]
    failed: Applied | None
    rest: _Rest | None
    skipped: tuple[str, ...]


def edit(
    root: Path, line: Line, topic: str, directory: Path, known: Sequence[Line], cache: Path, note: Note
) -> Edited:
    """Make ``directory``. Raises ``InputError`` when it holds anything but an untouched result of this."""
    require_free(directory)
    around = _Around(root, [other for other in known if other.collection == line.collection], cache, note)
    work = _prepared(around, line, topic)
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    try:
        conflict = _made(directory, work, line, topic, around)
    except BaseException:
        shutil.rmtree(directory)
        raise
    merging = work.rest.line.name if work.rest else ""
    return Edited(directory, _branch(topic, line), conflict, merging, work.skipped)


def _branch(topic: str, line: Line) -> str:
    return f"{topic}-{line.name}"


def _made(directory: Path, work: _Work, line: Line, topic: str, around: _Around) -> Applied | None:
    """Write the repository; the first patch that is left to a human."""
    branch = _branch(topic, line)
    git.run(directory, "init", "--quiet", f"--initial-branch={branch}")
    settings = {"boardwright.topic": topic, "boardwright.line": line.name, "notes.rewriteRef": "refs/notes/*"}
    for name, value in {**settings, "core.autocrlf": "false", "gc.auto": "0"}.items():
        git.run(directory, "config", name, value)
    around.note(f"writing {line.recipe.source.debian} {line.version} into {directory}: a minute or two")
    files = members(downloaded(line, around.cache, around.note))
    trees = [_tree("pristine", line, "", files, branch, [*work.before, *work.own])]
    if rest := work.rest:
        tag, of = f"pristine-{rest.line.name}", f"from-{rest.line.name}"
        trees.append(_tree(tag, rest.line, ": the touched files", rest.files, of, rest.commits))
    git.fast_import(directory, stream(trees, line.lock.epoch))
    git.run(directory, "update-ref", BASE, f"{branch}~{len(work.own)}")
    git.run(directory, "reset", "--quiet", "--hard", branch)
    conflict = work.failed
    if work.failed and work.rest and _cherry_picked(directory, work.rest):
        conflict = None
    git.run(directory, "update-ref", MADE, branch)
    return conflict


def _tree(
    tag: str, line: Line, what: str, files: Iterable[Member], branch: str, commits: Sequence[Commit]
) -> Tree:
    return Tree(tag, files, f"{line.recipe.source.debian} {line.version}{what}", branch, commits)


def _cherry_picked(directory: Path, rest: _Rest) -> bool:
    """Pick the rest from the other line's branch; False when git stops at a conflict, for a human."""
    branch = f"from-{rest.line.name}"
    name, _, address = DEVELOPERS.rstrip(">").partition(" <")
    identity = ("-c", f"user.name={name}", "-c", f"user.email={address}")
    git.run(
        directory, *identity, "cherry-pick", "--allow-empty", f"{branch}~{rest.count}..{branch}", fine=(0, 1)
    )
    return not (directory / ".git/CHERRY_PICK_HEAD").exists()


def require_free(directory: Path) -> None:
    """Raise ``InputError`` unless ``directory`` is free, or as `edit` left it."""
    if not directory.exists() or not any(directory.iterdir()):
        return
    if not (directory / ".git").is_dir() or not git.text(directory, "rev-parse", "--verify", MADE):
        raise InputError(f"{directory} is there and was not made by this", hint="name another one with --to")
    changed = git.text(directory, "status", "--porcelain", "--untracked-files=normal")
    if changed or git.text(directory, "rev-parse", "HEAD") != git.text(directory, "rev-parse", MADE):
        raise InputError(
            f"{directory} has changes in it",
            hint="`invoke patch refresh` writes them back; else remove it, or name another with --to",
        )


@dataclass(frozen=True, slots=True)
class _Around:
    """The project with the lines of one collection."""

    root: Path
    lines: list[Line]
    cache: Path
    note: Note

    def topics(self, line: Line, topic: str) -> tuple[list[Asked], Asked]:
        """The topics before ``topic`` on ``line``, and itself."""
        found = asked(self.root, line, [other.name for other in self.lines])
        index = next(number for number, one in enumerate(found) if one.topic == topic)
        return found[:index], found[index]

    def nearest(self, line: Line) -> list[Line]:
        """The other lines, the nearest first; of two as near, the newer."""
        order = sorted(self.lines, key=lambda one: numbers(one.name), reverse=True)
        place = {one.name: index for index, one in enumerate(order)}
        others = (one for one in order if one.name != line.name)
        return sorted(others, key=lambda one: abs(place[one.name] - place[line.name]))

    def source(self, line: Line, topics: Sequence[Asked]) -> Pristine:
        return pristine(line, paths_of(topics), self.cache, self.note)


def _prepared(around: _Around, line: Line, topic: str) -> _Work:
    before, own = around.topics(line, topic)
    if own.wrong or own.absent:
        own = _borrowed(around, line, own)
    source = around.source(line, [*before, own])
    first, skipped, texts = _all(source, before)
    commits, failed = _commits(source, texts, own)
    rest = _rest(around, line, own, failed) if failed else None
    return _Work(first, commits, failed, rest, skipped)


def _borrowed(around: _Around, line: Line, own: Asked) -> Asked:
    """For a line that the series says nothing about, or that it has nothing for: the nearest one's."""
    for other in around.nearest(line):
        _, theirs = around.topics(other, own.topic)
        if theirs.patches:
            around.note(f"{own.topic} has no patches for {line.name} yet: taking those of {other.name}")
            return theirs
    raise InputError(own.wrong or f"{own.topic} has no patches on any line: {own.absent}")


def _rest(around: _Around, line: Line, own: Asked, failed: Applied) -> _Rest | None:
    """The nearest line on which the topic applies and has the patches that are left, by their numbers."""
    names = list(own.patches)
    left = [name[:4] for name in names[names.index(failed.name) :]]
    for other in around.nearest(line):
        before, theirs = around.topics(other, own.topic)
        if [name[:4] for name in theirs.patches][-len(left) :] == left:
            source = around.source(other, [*before, theirs])
            first, _, texts = _all(source, before)
            commits, wrong = _commits(source, texts, theirs)
            if wrong is None:
                files = list(_files(source, dict.fromkeys(paths_of([*before, theirs]))))
                return _Rest(other, files, [*first, *commits], len(left))
    return None


def _all(source: Pristine, topics: Sequence[Asked]) -> tuple[list[Commit], tuple[str, ...], Texts]:
    """The commits of whole topics, one after the other; those that do not apply are left out."""
    commits: list[Commit] = []
    skipped: list[str] = []
    texts: Texts = {}
    for topic in topics:
        verdict, after = apply_topic(source, texts, topic)
        if verdict.green:
            commits += _commits(source, texts, topic)[0]
            texts = after
        else:
            skipped.append(topic.topic)
    return commits, tuple(skipped), texts


def _commits(source: Pristine, texts: Texts, topic: Asked) -> tuple[list[Commit], Applied | None]:
    """A topic's patches as commits, up to the first that does not apply, which is the second result."""
    commits: list[Commit] = []
    for name, patch in topic.patches.items():
        applied, after = apply_patch(source, texts, name, patch)
        if applied.state != "applies":
            return commits, applied
        changes = [_change(source, path, after[path]) for path in patch.paths]
        commits.append(Commit(message(patch.head, name), changes, f"{topic.topic}/{name}"))
        texts = after
    return commits, None


def _change(source: Pristine, path: str, text: str | None) -> Change:
    return Change(path, None if text is None else raw(text), source.executable(path))


def _files(source: Pristine, paths: dict[str, None]) -> Iterator[Member]:
    for path in paths:
        if (text := source.read(path)) is not None:
            yield Member(path, source.executable(path), raw(text))
