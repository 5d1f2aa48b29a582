"""Cases of wrong files: one text each, ``data/cases/*.case``, laid over the project in ``data/project``.

A case is made of edits and of what ``invoke check`` must say then, to the letter::

    === boards/toy/board.yaml
    -  dram: 2GiB
    +  dram: 2GB
    === expected
    boards/toy/board.yaml:6:9: expected a binary unit, found '2GB'
    hint: write 2GiB

A ``-`` block must stand in the file exactly once; without one the ``+`` block is added at the end (of a file
that may be new); ``!removed`` removes the file or directory.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Edit:
    """One change of one file."""

    file: str
    old: str
    new: str
    removed: bool


@dataclass(frozen=True)
class Case:
    name: str
    edits: tuple[Edit, ...]
    expected: str


def all_cases() -> list[Case]:
    return [read(path) for path in sorted(DATA.glob("cases/*.case"))]


def read(path: Path) -> Case:
    edits, expected = [], ""
    for section in path.read_text().split("=== ")[1:]:
        name, body = section.split("\n", 1)
        if name == "expected":
            expected = body
        else:
            edits.append(_edit(name, body))
    return Case(path.stem, tuple(edits), expected)


def _edit(name: str, body: str) -> Edit:
    lines = body.splitlines()
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] == sign) for sign in "-+")
    return Edit(name, old, new, lines == ["!removed"])


def project(root: Path, edits: tuple[Edit, ...] = ()) -> Path:
    """A copy of the project in ``root``, with these edits."""
    shutil.copytree(DATA / "project", root, dirs_exist_ok=True)
    for edit in edits:
        path = root / edit.file
        if edit.removed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            continue
        text = path.read_text() if path.exists() else ""
        assert not edit.old or text.count(edit.old) == 1, f"{edit.file} holds this not once: {edit.old}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(edit.old, edit.new) if edit.old else text + edit.new)
    return root
