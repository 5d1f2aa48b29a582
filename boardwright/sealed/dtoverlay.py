"""Compile device-tree overlays and apply each to the board's tree, as the loader would.

``python3 dtoverlay.py --base FILE.dtb --overlays DIR --out DIR [--required NAME...]`` writes
``<out>/overlays/<name>.dtbo`` and ``<out>/overlays.json``. Two kinds of lines in an overlay's comment are
read: ``boardwright: needs &label…`` (a tree without these labels is another board or an older kernel: the
overlay is skipped with that reason) and ``boardwright: expects PATH PROPERTY CELLS…`` (hexadecimal cells
that must be in the tree afterwards). An overlay that compiles but does not apply is an error. Standard
library only; needs dtc, fdtoverlay and fdtget.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


class Fault(Exception):
    """An overlay that is wrong."""


@dataclass(frozen=True)
class Result:
    """What became of one overlay: ``state`` applied or skipped, the reason, and how many lines changed."""

    name: str
    state: str
    reason: str
    changes: int


def directives(text: str, word: str) -> list[list[str]]:
    """The words after each ``boardwright: <word>`` in an overlay's comments."""
    return [match.split() for match in re.findall(rf"boardwright: {word} (.*)", text)]


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Fault(
            (result.stderr or result.stdout).strip() or f"{command[0]} ended with {result.returncode}"
        )
    return result.stdout


def labels(base: Path) -> set[str]:
    """The labels overlays may refer to; empty for a tree compiled without symbols."""
    result = subprocess.run(
        ["fdtget", "-p", str(base), "/__symbols__"], capture_output=True, text=True, check=False
    )
    return set(result.stdout.split())


def apply(source: Path, base: Path, known: set[str], out: Path, work: Path, required: bool) -> Result:
    """Compile ``source``, apply it to ``base``, check what it promises. Raises :class:`Fault`."""
    name, text = source.stem, source.read_text()
    needed = [label.lstrip("&") for words in directives(text, "needs") for label in words]
    missing = [label for label in needed if label not in known]
    compiled, merged = out / "overlays" / f"{name}.dtbo", work / f"{name}.dtb"
    _run("dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", str(compiled), str(source))
    if missing:
        compiled.unlink()
        reason = f"this device tree has no {_nearest(missing[0], known)}"
        if required:
            raise Fault(f"{reason}, and the board file asks for this overlay")
        return Result(name, "skipped", reason, 0)
    _run("fdtoverlay", "-i", str(base), "-o", str(merged), str(compiled))
    for path, prop, *cells in directives(text, "expects"):
        found = _run("fdtget", "-t", "x", str(merged), path, prop).split()
        if found != cells:
            raise Fault(
                f"expected {path} {prop} = {' '.join(cells)} after applying it, found {' '.join(found)}"
            )
    return Result(name, "applied", "", _changes(base, merged))


def _nearest(label: str, known: set[str]) -> str:
    if not known:
        return "symbols at all (it was compiled without -@)"
    close = difflib.get_close_matches(label, sorted(known), n=1)
    return f"label &{label}" + (f" (the nearest is &{close[0]})" if close else "")


def _changes(before: Path, after: Path) -> int:
    """Lines by which two trees differ; 0: the overlay says what the tree said already."""
    texts = [
        _run("dtc", "-q", "-s", "-I", "dtb", "-O", "dts", str(tree)).splitlines() for tree in (before, after)
    ]
    return sum(line[:1] in "+-" for line in difflib.unified_diff(*texts, n=0, lineterm=""))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--overlays", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path.cwd())
    parser.add_argument("--required", nargs="*", default=[])
    asked = parser.parse_args(arguments)
    (asked.out / "overlays").mkdir(parents=True, exist_ok=True)
    known, results, faults = labels(asked.base), [], []
    for source in sorted(asked.overlays.glob("*.dtso")):
        try:
            results.append(
                apply(source, asked.base, known, asked.out, asked.work, source.stem in asked.required)
            )
        except Fault as fault:
            faults.append(f"error: overlay {source.name}: {fault}")
    names = {result.name for result in results}
    absent = [name for name in asked.required if name not in names and not faults]
    faults += [f"error: the board file asks for overlay {name}, which is not there" for name in absent]
    for line in faults:
        print(line, file=sys.stderr)
    for result in results:
        print(f"{result.name}: {result.state}, {result.reason or f'{result.changes} lines changed'}")
    text = json.dumps([asdict(result) for result in results], indent=1)
    (asked.out / "overlays.json").write_text(text + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
