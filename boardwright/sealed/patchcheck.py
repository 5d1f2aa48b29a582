"""Which objects a patch series touches, and whether they compile without new warnings.

Runs inside the sandbox, so it uses the standard library only::

    python3 -m sealed.patchcheck objects --source /tree/src --patches /in/patches TOPIC...  >objects.json
    python3 -m sealed.patchcheck symbols --patches /in/patches TOPIC...                     >asked.config
    python3 -m sealed.patchcheck names --objects FILE [--state warning]                     >a name a line
    python3 -m sealed.patchcheck judge --objects objects.json --build DIR --said DIR --pristine DIR

``said`` and ``pristine`` hold what the compiler said about each object, with and without the patches.

The objects of a series: of every .c, .cpp and .S file it changes, and of every .c and .cpp file in a
directory it touches that includes, by name, a header it changes. ``judge`` calls an object ``ok``,
``warning`` (one that the pristine source does not have), ``error``, or ``unreached`` when the configuration
does not compile it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import patchtree

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_MESSAGE = re.compile(
    r"^(?:\.\./)*(?P<file>[^\s:]+):(?:\d+:){1,2} (?P<kind>warning|(?:fatal )?error): (?P<text>.*)$"
)


def objects(source: Path, patches: Path, topics: Sequence[str]) -> dict[str, list[str]]:
    """Source files to compile, relative to ``source`` (which is patched), each with the topics it is for."""
    found: dict[str, dict[str, None]] = {}
    for topic in topics:
        touched = _touched(patches, topic)
        units = [path for path in touched if path.endswith((".c", ".cpp", ".S"))]
        headers = [path for path in touched if path.endswith(".h")]
        for path in [*units, *_including(source, touched, headers)]:
            if (source / path).is_file():
                found.setdefault(path, {})[topic] = None
    return {path: list(found[path]) for path in sorted(found)}


def _touched(patches: Path, topic: str) -> list[str]:
    series = patchtree.read_series(patches, [topic])
    return sorted({path for patch in series for path in patchtree.touched_files(patch).paths})


def _including(source: Path, touched: Iterable[str], headers: Sequence[str]) -> list[str]:
    """The .c files in touched directories that name one of ``headers`` in an #include."""
    if not headers:
        return []
    places = {(source / path).parent for path in touched}
    units = {unit for place in places for unit in place.glob("*.c*") if unit.suffix in (".c", ".cpp")}
    return [
        str(unit.relative_to(source))
        for unit in sorted(units)
        for text in [unit.read_text(encoding="utf-8", errors="replace")]
        if any(f"/{header}".endswith(f"/{name}") for name in _INCLUDE.findall(text) for header in headers)
    ]


def outputs(found: dict[str, list[str]], source: Path, commands: Path | None) -> dict[str, dict[str, object]]:
    """Object files with their source and topics. ``commands``: compile_commands.json, where the build has
    one; kbuild names an object as its source."""
    known: dict[str, list[str]] = {}
    for row in json.loads(commands.read_text()) if commands else []:
        file = (Path(row["directory"]) / row["file"]).resolve()
        if file.is_relative_to(source.resolve()):
            known.setdefault(str(file.relative_to(source.resolve())), []).append(row["output"])
    return {
        target: {"source": path, "topics": topics}
        for path, topics in found.items()
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


def judge(
    targets: dict[str, dict[str, object]], build: Path, said: Path, pristine: Path
) -> list[dict[str, object]]:
    """The verdict on every object."""
    return [
        {"object": target, **row, **_verdict(target, build, said, pristine)}
        for target, row in targets.items()
    ]


def _verdict(target: str, build: Path, said: Path, pristine: Path) -> dict[str, object]:
    now = messages(said, target)
    before = {text for _, text in messages(pristine, target)}
    new = [text for kind, text in now if kind == "error" or text not in before]
    text = (said / target.replace("/", "%")).read_text(errors="replace") if new else ""
    if any(kind == "error" for kind, _ in now):
        return {"state": "error", "said": text}
    if not (build / target).exists():
        return {"state": "unreached", "said": ""}
    return {"state": "warning" if new else "ok", "said": text}


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
    sub.add_argument("--state", default="")
    given = parser.parse_args(arguments)
    if given.verb == "objects":
        found = objects(given.source, given.patches, given.topics)
        json.dump(outputs(found, given.source, given.commands), sys.stdout, indent=1)
    elif given.verb == "names":
        rows = json.loads(given.objects.read_text())
        rows = [{"object": name, **row} for name, row in rows.items()] if isinstance(rows, dict) else rows
        sys.stdout.writelines(f"{row['object']}\n" for row in rows if given.state in ("", row.get("state")))
    elif given.verb == "symbols":
        sys.stdout.write("".join(f"CONFIG_{name}=y\n" for name in symbols(given.patches, given.topics)))
    else:
        targets = json.loads(given.objects.read_text())
        json.dump(judge(targets, given.build, given.said, given.pristine), sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
