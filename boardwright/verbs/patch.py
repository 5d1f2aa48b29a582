"""``invoke patch status``, ``edit``, ``refresh`` and ``check``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build.store import cache_directory
from boardwright.errors import ExitStatus, InputError
from boardwright.kinds.context import Context
from boardwright.patches.lines import Line, all_lines, chosen
from boardwright.patches.series import require_order, topics
from boardwright.schema.board import Local
from boardwright.schema.project import Project, load_project
from boardwright.schema.suggest import nearest
from boardwright.verbs.common import open_store, say

if TYPE_CHECKING:
    from boardwright.build.executor import Builder
    from boardwright.patches.status import Verdict

ACTIONS = ("status", "edit", "refresh", "check")


def patch(root: Path, action: str, topic: str, line: str, place: str, as_json: bool) -> int:
    """What `invoke patch ACTION` does; ``place`` is the directory of ``edit`` and ``refresh``."""
    actions: dict[str, Callable[[], int]] = {
        "status": lambda: status(root, topic, line, as_json),
        "edit": lambda: edit(root, topic, line, place),
        "refresh": lambda: refresh(root, topic, line, place),
        "check": lambda: check(root, topic, line, as_json),
    }
    if action not in actions:
        raise InputError(
            f"expected one of {', '.join(ACTIONS)} after patch, found {action!r}",
            hint=nearest(action, ACTIONS) or "invoke patch status",
        )
    return actions[action]()


def status(root: Path, topic: str, line: str, as_json: bool) -> int:
    """Judge every topic on every line, or only those asked for; 1 unless all are green."""
    from boardwright.patches.report import as_json as rows
    from boardwright.patches.report import failures, remarks, table

    verdicts = _verdicts(root, topic, line)
    red = [verdict for verdict in verdicts if not verdict.green]
    if as_json:
        print(json.dumps(rows(verdicts), indent=2))
    else:
        print("\n".join([*table(verdicts), *remarks(verdicts), *failures(red)]))
    for collection in dict.fromkeys(verdict.line.collection for verdict in verdicts):
        require_order(root, collection)
    return ExitStatus.PRODUCT if red else ExitStatus.OK


def _verdicts(root: Path, topic: str, line: str) -> list[Verdict]:
    from boardwright.patches.status import asked, judge

    known = all_lines(load_project(root))
    verdicts: list[Verdict] = []
    for one in asked_lines(root, known, topic, line):
        names = [other.name for other in known if other.collection == one.collection]
        verdicts += judge(one, asked(root, one, names), cache_directory(), say)
    return [verdict for verdict in verdicts if topic in ("", verdict.topic)]


def check(root: Path, topic: str, line: str, as_json: bool) -> int:
    """Compile what the patches of every line touch; 1 unless all apply and compile without new warnings."""
    from dataclasses import asdict

    from boardwright.patches import check as checks
    from boardwright.patches.report import failures

    project = load_project(root)
    verdicts = _verdicts(root, topic, line)
    red = [verdict for verdict in verdicts if not verdict.green]
    print("\n".join(failures(red)), end="\n" if red and not as_json else "")
    rows: list[dict[str, object]] = []
    good = not red
    for one in dict.fromkeys(verdict.line for verdict in verdicts):
        of = [verdict for verdict in verdicts if verdict.line == one]
        if any(not verdict.green for verdict in of) or all(verdict.state == "absent" for verdict in of):
            continue
        objects = checks.check(checks.plan(_context(project), one, topic), _builder(root))
        rows += [{"line": str(one), **asdict(found)} for found in objects]
        good = good and all(found.good for found in objects)
        if not as_json:
            print("\n".join(checks.report(one, objects)))
    if as_json:
        print(json.dumps(rows, indent=2))
    return ExitStatus.OK if good else ExitStatus.PRODUCT


def _context(project: Project) -> Context:
    """What plans steps; patches are the same for every board, so any board will do."""
    boards = project.boards()
    if not boards:
        raise InputError("there is no board", hint="boards/<name>/board.yaml makes one: docs/board-file.md")
    return Context(project, project.board(boards[0]), Local())


def _builder(root: Path) -> Builder:
    from boardwright.build import executor
    from boardwright.build.progress import for_terminal

    logs = root / "out" / "patches" / "logs"
    jobs = executor.default_jobs()
    return executor.Builder(cache_directory(), open_store(), logs, for_terminal(), jobs)


def edit(root: Path, topic: str, line: str, place: str) -> int:
    """Make a git repository to work on one topic of one line in; 1 when a conflict is left to resolve."""
    from boardwright.patches.edit import edit as make
    from boardwright.patches.report import both_sides

    one, known = _one_line(root, topic, line)
    directory = _directory(root, topic, one, place)
    made = make(root, one, topic, directory, known, cache_directory(), say)
    for skipped in made.skipped:
        say(f"without {skipped}, which does not apply to {one}: `invoke patch status --line {one.name}`")
    if made.conflict is None:
        say(f"{directory}: branch {made.branch}, one commit a patch")
        say("commit or amend there, then: " + _again("refresh", topic, one, place))
        return ExitStatus.OK
    say(f"{directory}: branch {made.branch}; {made.conflict.name} does not apply to {one}")
    if made.conflict.conflict:
        print("\n".join(both_sides(made.conflict.conflict)))
    if made.merging:
        say(f"it is cherry-picked from {made.merging}: resolve it, then git cherry-pick --continue")
    say("then: " + _again("refresh", topic, one, place))
    return ExitStatus.PRODUCT


def refresh(root: Path, topic: str, line: str, place: str) -> int:
    """Write the commits of a repository that ``edit`` made back to the topic's files."""
    from boardwright.patches.refresh import refresh as write

    one, known = _one_line(root, topic, line)
    done = write(root, one, topic, _directory(root, topic, one, place), known, cache_directory(), say)
    where = f"patches/{one.collection}/{topic}"
    print("\n".join(f"{where}/{name}" for name in done.written))
    print("\n".join(f"{where}/{name} removed" for name in done.removed), end="\n" if done.removed else "")
    say(f"{len(done.written)} files written, {len(done.unchanged)} patches unchanged")
    return ExitStatus.OK


def _again(action: str, topic: str, line: Line, place: str) -> str:
    option = {"refresh": "--from", "edit": "--to"}[action]
    where = f" {option} {place}" if place else ""
    return f"invoke patch {action} --topic {topic} --line {line.name}{where}"


def _directory(root: Path, topic: str, line: Line, place: str) -> Path:
    return Path(place).absolute() if place else root / "out" / "patches" / f"{topic}-{line.name}"


def asked_lines(root: Path, known: Sequence[Line], topic: str, name: str) -> list[Line]:
    """The lines that ``--topic`` and ``--line`` name; all of those with patches without them."""
    there = {collection: topics(root, collection) for collection in {line.collection for line in known}}
    lines = [line for line in known if there[line.collection]]
    if topic:
        lines = [line for line in known if topic in there[line.collection]]
        names = sorted({name for names in there.values() for name in names})
        if not lines:
            hint = nearest(topic, names) or f"there are: {', '.join(names)}"
            raise InputError(f"there is no patch topic {topic!r}", hint=hint)
    if not lines:
        raise InputError("there is no patch topic", hint="docs/patches.md says how to make one")
    return chosen(lines, name)


def _one_line(root: Path, topic: str, name: str) -> tuple[Line, list[Line]]:
    """The line of ``edit`` and ``refresh``, which work on one topic of one line; and all lines."""
    known = all_lines(load_project(root))
    if not topic or not name:
        names = sorted({line.name for line in known})
        hint = f"add --topic NAME --line {'|'.join(names) or '7.3'}"
        raise InputError("expected a topic and a line", hint=hint)
    return asked_lines(root, known, topic, name)[0], known
