"""A topic of one line as a git repository: the pristine source, the topics before it, and its patches.

One commit a patch, each with its message; the branch is called ``<topic>-<line>``. Where a patch does not
apply, the line nearest to this one on which it does is brought in as a branch ``from-<line>`` (the touched
files only), and the rest is cherry-picked from there: a conflict is then git's, with both sides in the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError
from boardwright.patches import git
from boardwright.patches.archive import Member, members, raw
from boardwright.patches.gitstream import Change, Commit, Tree, message, stream
from boardwright.patches.lines import Line
from boardwright.patches.pristine import Note, Pristine, downloaded, pristine
from boardwright.patches.status import Applied, Asked, Texts, apply_patch, apply_topic, asked

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


def edit(
    root: Path, line: Line, topic: str, directory: Path, known: Sequence[Line], cache: Path, note: Note
) -> Edited:
    """Make ``directory``. Raises ``InputError`` when it holds anything but an untouched result of this."""
    require_free(directory)
    around = [other for other in known if other.collection == line.collection]
    made = _Work(root, line, topic, around, cache, note)
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    git.run(directory, "init", "--quiet", f"--initial-branch={made.branch}")
    settings = {"boardwright.topic": topic, "boardwright.line": line.name, "notes.rewriteRef": "refs/notes/*"}
    settings |= {"boardwright.collection": line.collection, "core.autocrlf": "false", "gc.auto": "0"}
    for name, value in settings.items():
        git.run(directory, "config", name, value)
    note(f"writing {line.recipe.source.debian} {line.version} into {directory}: a minute or two")
    git.fast_import(directory, stream(made.trees(), line.lock.epoch))
    git.run(directory, "update-ref", BASE, f"{made.branch}~{len(made.commits)}")
    git.run(directory, "reset", "--quiet", "--hard", made.branch)
    if made.failed and made.other:
        _cherry_pick(directory, made)
    git.run(directory, "update-ref", MADE, made.branch)
    merging = made.other.name if made.other else ""
    return Edited(directory, made.branch, made.failed, merging, made.skipped)


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


def _cherry_pick(directory: Path, made: _Work) -> None:
    """Pick the rest from the other line's branch; it stops at the first conflict, for a human."""
    rest = f"from-{made.other.name}~{made.left}..from-{made.other.name}" if made.other else ""
    git.run(directory, "cherry-pick", "--allow-empty", rest, fine=(0, 1))
    if not (directory / ".git/CHERRY_PICK_HEAD").exists():
        made.failed = None


class _Work:
    """What goes into the repository, found before anything is written."""

    def __init__(
        self, root: Path, line: Line, topic: str, around: Sequence[Line], cache: Path, note: Note
    ) -> None:
        self.root, self.line, self.topic, self.cache, self.note = root, line, topic, cache, note
        self.names = [other.name for other in around]
        self.branch = f"{topic}-{line.name}"
        self.failed: Applied | None = None
        self.other: Line | None = None
        self.left = 0
        self._other_commits: list[Commit] = []
        self._other_files: list[Member] = []
        before, mine = self._asked(line)
        if mine.wrong or mine.absent:
            mine = self._borrowed(mine, [other for other in around if other is not line])
        source = pristine(
            line, [p for one in (*before, mine) for x in one.patches.values() for p in x.paths], cache, note
        )
        self.before, self.skipped, texts = _all(source, before)
        self.commits, self.failed = commits_of(source, texts, mine)
        if self.failed:
            self._find_other(mine, [other for other in around if other is not line])

    def _asked(self, line: Line) -> tuple[list[Asked], Asked]:
        found = asked(self.root, line, self.names)
        index = next(number for number, one in enumerate(found) if one.topic == self.topic)
        return found[:index], found[index]

    def _borrowed(self, mine: Asked, others: Sequence[Line]) -> Asked:
        """For a line that the series says nothing about, or that it has nothing for: the nearest one's."""
        for other in _nearest(self.line, others):
            _, theirs = self._asked(other)
            if theirs.patches:
                self.note(
                    f"{self.topic} has no patches for {self.line.name} yet: taking those of {other.name}"
                )
                return theirs
        raise InputError(mine.wrong or f"{self.topic} has no patches on any line: {mine.absent}")

    def _find_other(self, mine: Asked, others: Sequence[Line]) -> None:
        """The nearest line on which the topic applies and has the patches that are left, by their numbers."""
        assert self.failed is not None
        names = list(mine.patches)
        left = [name[:4] for name in names[names.index(self.failed.name) :]]
        for other in _nearest(self.line, others):
            before, theirs = self._asked(other)
            if [name[:4] for name in theirs.patches][-len(left) :] != left:
                continue
            paths = [p for one in (*before, theirs) for x in one.patches.values() for p in x.paths]
            source = pristine(other, paths, self.cache, self.note)
            first, _, texts = _all(source, before)
            commits, failed = commits_of(source, texts, theirs)
            if failed is None:
                self.other, self.left = other, len(left)
                self._other_commits = [*first, *commits]
                self._other_files = list(_files(source, dict.fromkeys(paths)))
                return

    def trees(self) -> Iterator[Tree]:
        source = members(downloaded(self.line, self.cache, self.note))
        summary = f"{self.line.recipe.source.debian} {self.line.version}"
        yield Tree("pristine", source, summary, self.branch, [*self.before, *self.commits])
        if self.other:
            summary = f"{self.other.recipe.source.debian} {self.other.version}: the touched files"
            branch = f"from-{self.other.name}"
            yield Tree(f"pristine-{self.other.name}", self._other_files, summary, branch, self._other_commits)


def _nearest(line: Line, others: Sequence[Line]) -> list[Line]:
    """Other lines, the nearest first; of two as near, the newer."""
    order = sorted([line, *others], key=lambda one: tuple(map(int, one.name.split("."))))
    place = {id(one): index for index, one in enumerate(order)}
    return sorted(others, key=lambda one: (abs(place[id(one)] - place[id(line)]), -place[id(one)]))


def _all(source: Pristine, topics: Sequence[Asked]) -> tuple[list[Commit], tuple[str, ...], Texts]:
    """The commits of whole topics, one after the other; those that do not apply are left out."""
    commits: list[Commit] = []
    skipped: list[str] = []
    texts: Texts = {}
    for topic in topics:
        verdict, after = apply_topic(source, texts, topic)
        if verdict.green:
            commits += commits_of(source, texts, topic)[0]
            texts = after
        else:
            skipped.append(topic.topic)
    return commits, tuple(skipped), texts


def commits_of(source: Pristine, texts: Texts, topic: Asked) -> tuple[list[Commit], Applied | None]:
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
