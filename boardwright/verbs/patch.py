"""``invoke patch status``, ``edit``, ``refresh`` and ``check``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from boardwright.build.store import cache_directory
from boardwright.errors import ExitStatus, InputError
from boardwright.patches.lines import Line, all_lines, chosen
from boardwright.patches.series import require_order, topics
from boardwright.schema.project import Project, load_project
from boardwright.schema.suggest import nearest
from boardwright.verbs.common import say

ACTIONS = ("status", "edit", "refresh", "check")


def patch(root: Path, action: str, topic: str, line: str, place: str, as_json: bool) -> int:
    """What `invoke patch ACTION` does; ``place`` is the directory of ``edit`` and ``refresh``."""
    actions: dict[str, Callable[[], int]] = {
        "status": lambda: status(root, topic, line, as_json),
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
    from boardwright.patches.status import asked, judge

    known = all_lines(load_project(root))
    verdicts = []
    for one in asked_lines(root, known, topic, line):
        require_order(root, one.collection)
        names = [other.name for other in known if other.collection == one.collection]
        verdicts += judge(one, asked(root, one, names), cache_directory(), say)
    if topic:
        verdicts = [verdict for verdict in verdicts if verdict.topic == topic]
    red = [verdict for verdict in verdicts if not verdict.green]
    if as_json:
        print(json.dumps(rows(verdicts), indent=2))
    else:
        print("\n".join([*table(verdicts), *remarks(verdicts)]))
        print("\n".join(failures(red)), end="\n" if red else "")
    return ExitStatus.PRODUCT if red else ExitStatus.OK


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


def one_line(project: Project, topic: str, name: str) -> Line:
    """The line of ``edit`` and ``refresh``, which work on one topic of one line."""
    known = all_lines(project)
    if not topic or not name:
        names = sorted({line.name for line in known})
        raise InputError(
            "expected a topic and a line", hint=f"add --topic NAME --line {'|'.join(names) or '7.3'}"
        )
    return asked_lines(project.root, known, topic, name)[0]
