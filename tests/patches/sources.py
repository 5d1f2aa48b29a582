"""A project with kernels and a Mesa of a few lines each, in packages as Debian makes them, all in a cache.

Every source is a dict of path to text; topics are written with :meth:`Bench.topic`.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from boardwright.patches.hunks import lines_of
from boardwright.patches.lines import Line, all_lines
from boardwright.schema.project import load_project

RING = "".join(f"\tstep_{number}(ring);\n" for number in range(1, 41))
NEW = {
    "drivers/radeon/ring.c": f"void start(struct ring *ring)\n{{\n{RING}}}\n",
    "drivers/radeon/ring.h": "void start(struct ring *ring);\n",
    "Makefile": "VERSION = 7\n",
    "scripts/check.sh": "#!/bin/sh\n",
}
OLD = {
    **NEW,
    # Four more lines above, another name in the middle.
    "drivers/radeon/ring.c": "/* old */\n" * 4
    + NEW["drivers/radeon/ring.c"].replace("step_20(ring)", "move_20(ring, 1)"),
    "Makefile": "VERSION = 6\n",
}
RECIPE = """\
recipe: {name}
kind: kernel
environment: tools
source: {{debian: {package}, suite: trixie}}
"""


def diff(path: str, before: str | None, after: str | None) -> str:
    """A plain unified diff of one file; None is a file that is not there."""
    old = f"a/{path}" if before is not None else "/dev/null"
    new = f"b/{path}" if after is not None else "/dev/null"
    rows = difflib.unified_diff(lines_of(before or ""), lines_of(after or ""), old, new)
    return "".join(rows)


def patch(subject: str, *diffs: str, body: str = "Because.") -> str:
    head = f"From: A Developer <a@localhost>\nSubject: [PATCH] radeon: {subject}\n\n{body}\n---\n"
    return head + "".join(diffs)


def change(source: Mapping[str, str], path: str, old: str, new: str) -> str:
    """The diff that replaces ``old`` in a file of ``source``."""
    assert old in source[path]
    return diff(path, source[path], source[path].replace(old, new))


class Bench:
    """The project, and the cache its packages are in."""

    def __init__(self, root: Path) -> None:
        self.root, self.cache = root / "project", root / "cache"
        (self.root / "recipes").mkdir(parents=True)
        (self.root / "patches/kernel").mkdir(parents=True)
        self.notes: list[str] = []

    def kernel(self, line: str, source: Mapping[str, str]) -> None:
        """A recipe ``linux-<line>`` with its lock, and its .deb among the downloads."""
        package = f"linux-source-{line}"
        staging = self.root.parent / "deb" / line
        (staging / "usr/src").mkdir(parents=True)
        (staging / "DEBIAN").mkdir()
        control = f"Package: {package}\nVersion: {line}.9-1\nArchitecture: all\nMaintainer: x <x@localhost>\n"
        (staging / "DEBIAN/control").write_text(f"{control}Description: x\n")
        (staging / f"usr/src/{package}.tar.xz").write_bytes(tarball(f"{package}/", source, "xz"))
        deb = staging.parent / f"{package}_{line}.9-1_all.deb"
        subprocess.run(["dpkg-deb", "--build", "-Zxz", staging, deb], check=True, capture_output=True)
        recipe = RECIPE.format(name=f"linux-{line}", package=package)
        self.recipe(f"linux-{line}", recipe, package, f"{line}.9-1", "all", {deb.name: deb.read_bytes()})

    def recipe(
        self, name: str, text: str, package: str, version: str, architecture: str, files: Mapping[str, bytes]
    ) -> None:
        (self.root / f"recipes/{name}.yaml").write_text(text)
        rows = []
        for file, content in files.items():
            sha256 = hashlib.sha256(content).hexdigest()
            place = self.cache / "downloads" / sha256[:2] / sha256
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            rows.append(
                {"package": package, "version": version, "architecture": architecture,
                 "path": f"pool/main/x/{file}", "size": len(content), "sha256": sha256}
            )  # fmt: skip
        lock = {"version": 1, "recipe": name, "request": "0" * 64, "epoch": 1_700_000_000, "files": rows}
        (self.root / f"recipes/{name}.lock.json").write_text(json.dumps(lock))

    def topic(self, name: str, series: str, **patches: str) -> Path:
        """``patches/kernel/<name>``; keyword ``p1_6_1`` is the file ``0001-p.6.1.patch``."""
        directory = self.root / "patches/kernel" / name
        directory.mkdir(exist_ok=True)
        (directory / "series").write_text(series)
        for key, text in patches.items():
            (directory / file_name(key)).write_text(text)
        return directory

    @property
    def lines(self) -> list[Line]:
        return all_lines(load_project(self.root))

    def line(self, name: str) -> Line:
        return next(line for line in self.lines if line.name == name)

    def note(self, text: str) -> None:
        self.notes.append(text)


def file_name(key: str) -> str:
    stem, *line = key.split("_", 1)
    suffix = "." + line[0].replace("_", ".") if line else ""
    return f"000{stem[1:]}-{stem[0]}{suffix}.patch"


def tarball(prefix: str, files: Mapping[str, str], how: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{how}") as archive:  # type: ignore[call-overload]
        for path, text in files.items():
            info = tarfile.TarInfo(prefix + path)
            info.size = len(text.encode())
            info.mode = 0o755 if path.endswith(".sh") else 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()
