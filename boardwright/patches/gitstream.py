"""A source with its patches as git commits, written as one stream for ``git fast-import``.

The same source and patches give the same commit names everywhere: authors come from the patches, dates from
the lock. Which file a commit came from is kept as a note on it, which git carries along when commits are
amended or rebased, so that `invoke patch refresh` finds the file again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from boardwright.patches.archive import Member, raw

NOTES = "refs/notes/boardwright"
DEVELOPERS = "boardwright developers <boardwright@localhost>"


@dataclass(frozen=True, slots=True)
class Message:
    """The head of a patch: who wrote it, its subject and its text, as git keeps them."""

    author: str
    subject: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.subject}\n\n{self.body}".rstrip("\n") + "\n"

    @property
    def head(self) -> str:
        """As it stands in a patch file, up to and with ``---``."""
        body = f"{self.body.strip()}\n" if self.body.strip() else ""
        return f"From: {self.author}\nSubject: [PATCH] {self.subject}\n\n{body}---\n"


def message(head: str, otherwise: str) -> Message:
    """The message in the head of a patch; its subject is ``otherwise`` when it has none."""
    above = re.split(r"^---\s*$", head, maxsplit=1, flags=re.MULTILINE)[0]
    fields, _, body = above.partition("\n\n")
    if not re.match(r"[A-Z][A-Za-z-]*: ", fields):
        fields, body = "", above
    found = {
        match[1].lower(): " ".join(match[2].split())
        for match in re.finditer(r"^([A-Z][A-Za-z-]*): (.*(?:\n[ \t].*)*)", fields, re.MULTILINE)
    }
    subject = re.sub(r"^\[PATCH[^]]*\]\s*", "", found.get("subject", "")) or otherwise
    return Message(found.get("from", DEVELOPERS), subject, body.strip("\n"))


@dataclass(frozen=True, slots=True)
class Change:
    """A file as a commit leaves it; ``content`` None removes it."""

    path: str
    content: bytes | None
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """One patch; ``note`` is its ``topic/file``, or '' for none."""

    message: Message
    changes: Sequence[Change]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """A source under the tag ``tag``, and a branch of patches on it."""

    tag: str
    files: Iterable[Member]
    summary: str
    branch: str
    commits: Sequence[Commit]


def stream(trees: Iterable[Tree], when: int) -> Iterator[bytes]:
    """Everything, for one run of fast-import; ``when`` dates the pristine sources, seconds since 1970.

    Every commit of a branch is a second later than the one before it, so that they stay in order.
    """
    marks, notes = 0, list[bytes]()
    for tree in trees:
        files: list[bytes] = []
        for member in tree.files:
            marks += 1
            yield b"blob\nmark :%d\n" % marks + _data(member.content)
            mode = "120000" if member.link else "100755" if member.executable else "100644"
            files.append(raw(f"M {mode} :{marks} {_quoted(member.path)}\n"))
        marks += 1
        first = Message(DEVELOPERS, tree.summary, "")
        yield _commit(f"refs/tags/{tree.tag}", marks, first, when) + b"".join(files)
        ref = f"refs/heads/{tree.branch}"
        yield raw(f"reset {ref}\nfrom :{marks}\n\n")
        for number, commit in enumerate(tree.commits, start=1):
            yield _commit(ref, marks + 1, commit.message, when + number) + b"from :%d\n" % marks
            marks += 1
            for change in commit.changes:
                yield _modification(change)
            if commit.note:
                notes.append(raw(f"N inline :{marks}\n") + _data(raw(f"{commit.note}\n")))
    if notes:
        about = Message(DEVELOPERS, "Which file a commit came from", "")
        yield _commit(NOTES, marks + 1, about, when) + b"".join(notes)
    yield b"done\n"


def _modification(change: Change) -> bytes:
    if change.content is None:
        return raw(f"D {_quoted(change.path)}\n")
    mode = "100755" if change.executable else "100644"
    return raw(f"M {mode} inline {_quoted(change.path)}\n") + _data(change.content)


def _commit(ref: str, mark: int, message: Message, when: int) -> bytes:
    author = message.author if re.fullmatch(r"[^<>\n]*<[^<>\n]*>", message.author) else f"{message.author} <>"
    head = f"commit {ref}\nmark :{mark}\nauthor {author} {when} +0000\ncommitter {DEVELOPERS} {when} +0000\n"
    return raw(head) + _data(raw(message.text))


def _data(content: bytes) -> bytes:
    return b"data %d\n" % len(content) + content + b"\n"


def _quoted(path: str) -> str:
    """A path as fast-import takes it whatever stands in it."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
