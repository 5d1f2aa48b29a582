"""Which objects a patch series touches, and whether they compile without new warnings.

Runs inside the sandbox, so it uses the standard library only::

    python3 -m sealed.patchcheck objects --source /tree/src --patches /in/patches TOPIC...  >objects.json
    python3 -m sealed.patchcheck symbols --patches /in/patches TOPIC...                     >asked.config
    python3 -m sealed.patchcheck names --objects FILE [--states warning error]             >a name a line
    python3 -m sealed.patchcheck judge --objects objects.json --build DIR --said DIR --pristine DIR

``said`` and ``pristine`` hold what the compiler said about each object, with and without the patches.

The objects of a series: of every .c, .cpp and .S file it changes, and of every .c and .cpp file in a
directory it touches that includes, by name, a header it changes. ``judge`` calls an object ``ok``,
``warning`` or ``error`` (with a message that the pristine source does not give), or, when it cannot be
compiled in this configuration with or without the patches, ``unreached``; ``skipped`` if no patch changes
its source.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import patchtree

Row = dict[str, object]
"""Of JSON."""

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_MESSAGE = re.compile(
    r"^(?:\.\./)*(?P<file>[^\s:]+):(?:\d+:){1,2} (?P<kind>warning|(?:fatal )?error): (?P<text>.*)$"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A source file to compile: for these topics; ``changed`` by one of them, or only including a header."""

    topics: tuple[str, ...]
    changed: bool


def units(source: Path, patches: Path, topics: Sequence[str]) -> dict[str, Unit]:
    """Source files to compile, relative to ``source`` (which is patched)."""
    found: dict[str, Unit] = {}
    for topic in topics:
        touched = _touched(patches, topic)
        changed = [path for path in touched if path.endswith((".c", ".cpp", ".S"))]
        headers = [path for path in touched if path.endswith(".h")]
        for path in dict.fromkeys([*changed, *_including(source, touched, headers)]):
            if (source / path).is_file():
                before = found.get(path, Unit((), False))
                found[path] = Unit((*before.topics, topic), before.changed or path in changed)
    return {path: found[path] for path in sorted(found)}


def _touched(patches: Path, topic: str) -> list[str]:
    series = patchtree.read_series(patches, [topic])
    return sorted({path for patch in series for path in patchtree.touched_files(patch).paths})


def _including(source: Path, touched: Iterable[str], headers: Sequence[str]) -> list[str]:
    """The .c files in touched directories that name one of ``headers`` in an #include."""
    if not headers:
        return []
    places = {(source / path).parent for path in touched}
    files = {file for place in places for file in place.glob("*.c*") if file.suffix in (".c", ".cpp")}
    return [
        str(file.relative_to(source))
        for file in sorted(files)
        for text in [file.read_text(encoding="utf-8", errors="replace")]
        if any(f"/{header}".endswith(f"/{name}") for name in _INCLUDE.findall(text) for header in headers)
    ]


def objects(found: Mapping[str, Unit], source: Path, commands: Path | None) -> dict[str, Row]:
    """Object files of units. ``commands``: compile_commands.json, where the build has one; kbuild names an
    object as its source. ``built``: whether the build knows the object; ninja makes none at all when it is
    asked for one that it does not know."""
    known: dict[str, list[str]] = {}
    for row in json.loads(commands.read_text()) if commands else []:
        file = (Path(row["directory"]) / row["file"]).resolve()
        if file.is_relative_to(source.resolve()):
            known.setdefault(str(file.relative_to(source.resolve())), []).append(row["output"])
    return {
        target: {
            "source": path,
            "topics": list(unit.topics),
            "changed": unit.changed,
            "built": commands is None or path in known,
        }
        for path, unit in found.items()
        for target in known.get(path, [str(Path(path).with_suffix(".o"))])
    }


def symbols(patches: Path, topics: Sequence[str]) -> list[str]:
    """Kconfig symbols that the topics add."""
    found: dict[str, None] = {}
    for patch in patchtree.read_series(patches, topics):
        text = patch.path.read_text(encoding="utf-8", errors="replace")
        found |= dict.fromkeys(re.findall(r"^\+(?:menu)?config (\w+)\s*$", text, re.MULTILINE))
    return list(found)


def messages(said: Path, target: str) -> list[tuple[str, str]]:
    """Warnings and errors about one object: kind, and text without line numbers."""
    path = said / target.replace("/", "%")
    if not path.exists():
        return []
    rows = (_MESSAGE.match(line) for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return [(row["kind"].split()[-1], f"{row['file']}: {row['text']}") for row in rows if row]


def judge(targets: Mapping[str, Row], build: Path, said: Path, pristine: Path) -> list[Row]:
    """The verdict on every object."""
    return [
        {"object": name, **row, **_verdict(name, bool(row["changed"]), build, said, pristine)}
        for name, row in targets.items()
    ]


def _verdict(target: str, changed: bool, build: Path, said: Path, pristine: Path) -> Row:
    now = messages(said, target)
    before = {text for _, text in messages(pristine, target)}
    new = [kind for kind, text in now if text not in before]
    if new:
        text = (said / target.replace("/", "%")).read_text(encoding="utf-8", errors="replace")
        return {"state": "error" if "error" in new else "warning", "said": text}
    if any(kind == "error" for kind, _ in now) or not (build / target).exists():
        return {"state": "unreached" if changed else "skipped", "said": ""}
    return {"state": "ok", "said": ""}


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("objects", "symbols"):
        sub = verbs.add_parser(verb)
        sub.add_argument("--source", type=Path, default=Path())
        sub.add_argument("--patches", type=Path, required=True)
        sub.add_argument("--commands", type=Path)
        sub.add_argument("topics", nargs="*")
    sub = verbs.add_parser("judge")
    for option in ("--objects", "--build", "--said", "--pristine"):
        sub.add_argument(option, type=Path, required=True)
    sub = verbs.add_parser("names")
    sub.add_argument("--objects", type=Path, required=True)
    sub.add_argument("--states", nargs="+", default=[])
    given = parser.parse_args(arguments)
    if given.verb == "objects":
        found = units(given.source, given.patches, given.topics)
        json.dump(objects(found, given.source, given.commands), sys.stdout, indent=1)
    elif given.verb == "names":
        rows = json.loads(given.objects.read_text())
        rows = [{"object": name, **row} for name, row in rows.items()] if isinstance(rows, dict) else rows
        wanted = (row for row in rows if row["built"] and (not given.states or row["state"] in given.states))
        sys.stdout.writelines(f"{row['object']}\n" for row in wanted)
    elif given.verb == "symbols":
        sys.stdout.write("".join(f"CONFIG_{name}=y\n" for name in symbols(given.patches, given.topics)))
    else:
        targets = json.loads(given.objects.read_text())
        json.dump(judge(targets, given.build, given.said, given.pristine), sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
