"""Compile device-tree overlays and apply each to the board's tree, as the loader would.

``python3 -m sealed.dtoverlay --base FILE.dtb --overlays DIR --out DIR [--required NAME...]`` writes
``<out>/overlays/<name>.dtbo`` of every overlay that applies, and ``<out>/overlays.json``. Two kinds of
lines in an overlay's comments are read:

``boardwright: needs &label …``
    A tree without these labels is of another board or an older kernel, or was compiled without symbols:
    the overlay is skipped, with that reason.
``boardwright: expects PATH-or-&label PROPERTY [VALUE …]``
    What must be in the tree afterwards: hexadecimal cells, a string in double quotes, or nothing for a
    property without a value.

An overlay that refers to any other label the tree does not have, or that does not apply, is an error; so
is one that the board file asks for and that would be skipped. Needs dtc and fdtoverlay.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import fdt


class Fault(Exception):
    """An overlay that is wrong."""


@dataclass(frozen=True)
class Result:
    """What became of one overlay."""

    name: str
    state: str
    """``applied`` or ``skipped``."""
    reason: str
    """Why it was skipped."""
    effect: list[str]
    """Paths of the nodes that it changes or adds; none: the tree says the same already."""


def directives(text: str, word: str) -> list[list[str]]:
    """The words after each ``boardwright: <word>`` in an overlay's comments."""
    return [match.split() for match in re.findall(rf"boardwright: {word} +(.*)", text)]


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise Fault(said or f"{command[0]} ended with {result.returncode}")


def symbols(tree: fdt.Tree) -> dict[str, str]:
    """Labels that overlays may refer to, and their paths; none for a tree compiled without ``-@``."""
    return {label: fdt.text(path) for label, path in tree.get("/__symbols__", {}).items()}


def absent(label: str, known: Collection[str]) -> str:
    """``label &a (the nearest is &b)``: what a tree has not."""
    if not known:
        return f"label &{label}, nor any other: it was compiled without symbols (dtc -@)"
    close = difflib.get_close_matches(label, sorted(known), n=1)
    return f"label &{label}" + (f" (the nearest is &{close[0]})" if close else "")


@dataclass(frozen=True)
class Workshop:
    """The board's tree, and where compiled and merged trees go."""

    base: Path
    tree: fdt.Tree
    out: Path
    work: Path

    def compiled(self, name: str) -> Path:
        return self.out / "overlays" / f"{name}.dtbo"

    def merge(self, names: Sequence[str]) -> fdt.Tree:
        """The board's tree with these overlays, in this order."""
        merged = self.work / "merged.dtb"
        overlays = [str(self.compiled(name)) for name in names]
        _run("fdtoverlay", "-i", str(self.base), "-o", str(merged), *overlays)
        return fdt.read(merged.read_bytes())


def apply(source: Path, shop: Workshop) -> Result:
    """Compile ``source``, apply it, check what it promises. Raises :class:`Fault`."""
    name, text, known = source.stem, source.read_text(), symbols(shop.tree)
    compiled = shop.compiled(name)
    _run("dtc", "-@", "-I", "dts", "-O", "dtb", "-o", str(compiled), str(source))
    for label in (word.lstrip("&") for words in directives(text, "needs") for word in words):
        if label not in known:
            compiled.unlink()
            return Result(name, "skipped", f"the device tree has no {absent(label, known)}", [])
    for label in fdt.read(compiled.read_bytes()).get("/__fixups__", {}):
        if label not in known:
            raise Fault(f"expected a device tree with {absent(label, known)}, found none")
    merged = shop.merge([name])
    for words in directives(text, "expects"):
        _expect(merged, words)
    return Result(name, "applied", "", changed(shop.tree, merged))


def _expect(tree: fdt.Tree, words: list[str]) -> None:
    place, prop, *values = words
    path = symbols(tree).get(place[1:], place) if place.startswith("&") else place
    found = tree.get(path, {}).get(prop)
    if found != _value(values):
        shown = "nothing" if found is None else f"the bytes {found.hex(' ', 4) or '(none)'}"
        raise Fault(f"expected {' '.join(words)} after applying it, found {shown}")


def _value(words: list[str]) -> bytes:
    text = " ".join(words)
    if text.startswith('"'):
        return text.strip('"').encode() + b"\0"
    return b"".join(int(word, 16).to_bytes(4, "big") for word in words)


def changed(before: fdt.Tree, after: fdt.Tree) -> list[str]:
    """Paths of nodes that differ; the table of symbols aside."""
    paths = (before.keys() | after.keys()) - {"/__symbols__"}
    return sorted(path for path in paths if before.get(path) != after.get(path))


def every(sources: Sequence[Path], required: Sequence[str], shop: Workshop) -> Iterator[Result | str]:
    """The result of each overlay, or what is wrong with it; then the required ones together."""
    usable: set[str] = set()
    broken = False
    for source in sources:
        try:
            result = apply(source, shop)
            if result.state == "applied":
                usable.add(source.stem)
            elif source.stem in required:
                raise Fault(f"the board file asks for it, but {result.reason}")
            yield result
        except (Fault, fdt.NotATree) as fault:
            broken = True
            yield f"overlay {source.name}: {fault}"
    known = {source.stem for source in sources}
    for name in [name for name in required if name not in known]:
        broken = True
        close = difflib.get_close_matches(name, sorted(known), n=1)
        yield f"the board file asks for overlay {name}, found none of that name" + (
            f"; the nearest is {close[0]}" if close else ""
        )
    if len(required) > 1 and not broken:
        try:
            shop.merge(required)
        except Fault as fault:
            yield f"overlays {' '.join(required)} do not apply one after the other: {fault}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--overlays", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--required", nargs="*", default=[])
    asked = parser.parse_args(arguments)
    (asked.out / "overlays").mkdir(parents=True, exist_ok=True)
    shop = Workshop(asked.base, fdt.read(asked.base.read_bytes()), asked.out, asked.work)
    outcomes = list(every(sorted(asked.overlays.glob("*.dtso")), asked.required, shop))
    results = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    faults = [outcome for outcome in outcomes if isinstance(outcome, str)]
    for result in results:
        effect = f"changes {', '.join(result.effect)}" if result.effect else "changes nothing in this tree"
        print(f"  OVERLAY {result.name}: {result.state}, {result.reason or effect}")
    for line in faults:
        print(f"error: {line}", file=sys.stderr)
    text = json.dumps([asdict(result) for result in results], indent=1)
    (asked.out / "overlays.json").write_text(text + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
