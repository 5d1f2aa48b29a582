"""The commits of a topic in a repository that `patch edit` made, as patches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError
from boardwright.patches import git, hunks
from boardwright.patches.archive import raw, text
from boardwright.patches.edit import BASE
from boardwright.patches.gitstream import NOTES, Message, message
from boardwright.patches.lines import Line

_NOISE = re.compile(r"^(diff --git |index |new file mode 100644|deleted file mode )")


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit: its message, the file it came from ('' when new), its diff, its files before and after."""

    message: Message
    note: str
    diff: str
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]

    def patch(self, old: bytes | None) -> bytes:
        """The text of its patch file; of ``old``, the file it came from, as much as is still true."""
        kept = _parsed(old)
        if old is None or kept is None or not self.does(kept):
            return raw(self.message.head + self.diff)
        head = message(kept.head, "")
        if (head.text, head.author) == (self.message.text, self.message.author):
            return old
        return raw(self.message.head + text(old)[len(kept.head) :])

    def does(self, patch: hunks.Patch) -> bool:
        """Whether a patch makes the change of this commit, whatever its hunks' line numbers."""
        now = dict(self.before)
        if set(patch.paths) != set(now):
            return False
        for file in patch.files:
            now[file.path], outcomes = hunks.apply(file, now[file.path])
            if any(outcome.state != "applies" for outcome in outcomes):
                return False
        return now == self.after


def _parsed(content: bytes | None) -> hunks.Patch | None:
    try:
        return None if content is None else hunks.parse(text(content))
    except hunks.DiffError:
        return None


def require_ours(directory: Path, line: Line, topic: str) -> None:
    """Raise ``InputError`` unless ``directory`` is a repository of this topic and line with all committed."""
    if not (directory / ".git").is_dir():
        raise InputError(
            f"{directory} is no repository that patch edit made",
            hint=f"invoke patch edit --topic {topic} --line {line.name}, or name another one with --from",
        )
    found = [git.text(directory, "config", f"boardwright.{name}") for name in ("topic", "line")]
    if found != [topic, line.name]:
        what = " on ".join(filter(None, found)) or "something else"
        raise InputError(f"expected a repository of {topic} on {line.name}, found {what} in {directory}")
    for name in ("CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply", "sequencer", "MERGE_HEAD"):
        if (directory / ".git" / name).exists():
            raise InputError(
                f"git has not finished in {directory} ({name})",
                hint="resolve what is left, then git cherry-pick --continue (or git rebase --continue)",
            )
    if changed := git.text(directory, "status", "--porcelain", "--untracked-files=no"):
        raise InputError(
            f"{directory} has changes that are not committed: {changed.splitlines()[0].split()[-1]}",
            hint="git commit --all (or --amend); only commits become patches",
        )


def committed(directory: Path) -> list[Committed]:
    """The topic's commits in order. Raises ``InputError`` for what cannot be a patch."""
    if git.run(directory, "merge-base", "--is-ancestor", BASE, "HEAD", fine=(0, 1)).returncode:
        raise InputError(
            f"the branch in {directory} no longer stands on the commit before the topic",
            hint=f"git rebase --onto {BASE} <the last commit that is not yours>",
        )
    names = git.text(directory, "rev-list", "--reverse", "--topo-order", f"{BASE}..HEAD").split()
    return [_commit(directory, name) for name in names]


def _commit(directory: Path, name: str) -> Committed:
    subject = git.text(directory, "show", "-s", "--format=%h %s", name)
    parents = git.text(directory, "rev-list", "--parents", "-n1", name).split()[1:]
    if len(parents) != 1:
        raise InputError(f"commit {subject}: a merge cannot be a patch", hint="make the history linear")
    first, _, rest = git.text(directory, "show", "-s", "--format=%s%n%b", name).partition("\n")
    if re.match(r"(fixup|squash|amend)! ", first):
        raise InputError(f"commit {subject}: is to be folded into another", hint="git rebase -i --autosquash")
    author = git.text(directory, "show", "-s", "--format=%an <%ae>", name)
    note = git.text(directory, "notes", f"--ref={NOTES}", "show", name).partition("\n")[0]
    before, after = _files(directory, subject, parents[0], name)
    return Committed(
        Message(author, first, rest.strip("\n")), note, _diff(directory, parents[0], name), before, after
    )


def _files(
    directory: Path, subject: str, parent: str, name: str
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    fields = git.text(directory, "diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", parent, name).split(
        "\0"
    )
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = head.removeprefix(":").split(" ")
        modes = {old_mode, new_mode} - {"000000"}
        if len(modes) > 1 or modes & {"120000", "160000"} or (old_mode == "000000" and new_mode == "100755"):
            raise InputError(f"commit {subject}: {path}: a plain diff carries no modes and no links")
        before[path] = _blob(directory, old)
        after[path] = _blob(directory, new)
    if not before:
        raise InputError(f"commit {subject}: changes nothing", hint="git rebase -i, and drop it")
    return before, after


def _blob(directory: Path, name: str) -> str | None:
    if not name.strip("0"):
        return None
    return text(git.run(directory, "cat-file", "blob", name).stdout)


def _diff(directory: Path, parent: str, name: str) -> str:
    """A unified diff without what changes by itself: no object names, no modes, no version of git."""
    options = ("-p", "-U3", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index")
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    output = text(git.run(directory, "diff-tree", *options, *prefixes, parent, name).stdout)
    if re.search(r"^Binary files .* differ$", output, re.MULTILINE):
        raise InputError(f"commit {name[:12]}: binary files cannot be in a patch")
    kept: list[str] = []
    left = 0
    for line in hunks.lines_of(output):
        if match := hunks.HEAD.match(line):
            left = sum(int(match[group] if match[group] is not None else 1) for group in (2, 4))
        elif left > 0:
            left -= {" ": 2, "+": 1, "-": 1}.get(line[:1], 0)
        elif _NOISE.match(line):
            continue
        kept.append(line)
    return "".join(kept)
