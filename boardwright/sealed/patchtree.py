"""A source tree with patches, kept between builds so that only what changed is compiled again.

Runs inside the sandbox, so it uses the standard library and ``patch`` only. A step calls, in order::

    patchtree.py open  --tree /tree --identity DIGEST       prints "fresh" or "kept"
    (unpack the source into /tree/src, when fresh)
    patchtree.py apply --tree /tree --patches /in/patches --stage /work/stage TOPIC...
    (compile in /tree/build)
    patchtree.py close --tree /tree

Layout of the tree: ``src`` (patched), ``orig`` (pristine copies of what patches touch), ``build`` (the
step's own), ``state.json`` (the marker) or ``busy.json`` (the marker of a tree in use).

A kill at any moment must not change the result. ``open`` turns the marker into ``busy.json`` and
``close`` turns it back; both are one rename. A tree without ``state.json`` was left in the middle of
something and is emptied by the next ``open``. A patch that does not apply is found before ``src`` is
touched, so the tree stays usable while somebody repairs the patch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

FORMAT = 1
STATE = "state.json"
BUSY = "busy.json"

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class PatchError(Exception):
    """A series or a patch is wrong; the text names topic, patch, file and hunk."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch of a series; ``name`` is ``topic/file.patch``, as messages show it."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Touched:
    """The files a patch names: those it expects to find, and those it expects not to."""

    existing: tuple[str, ...]
    created: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.existing, *self.created)))


@dataclass(frozen=True, slots=True)
class State:
    """What is known about a tree: its source, and for each patched file whether the source had it."""

    identity: str
    pristine: Mapping[str, bool] = field(default_factory=dict)
    closed_at: float = 0.0


# --- series and patches ------------------------------------------------------------------------------


def read_series(patches: Path, topics: Sequence[str]) -> list[Patch]:
    """The patches of ``topics`` in order. Each topic is a directory with a ``series`` file."""
    found: list[Patch] = []
    for topic in topics:
        directory = patches / topic
        series = directory / "series"
        if not series.is_file():
            raise PatchError(f"patches/{topic}: no file named series")
        names: dict[str, int] = {}
        for number, line in enumerate(series.read_text(encoding="utf-8").splitlines(), start=1):
            name = line.split("#", 1)[0].strip()
            place = f"patches/{topic}/series:{number}"
            if not name:
                continue
            if "/" in name or name in (".", ".."):
                raise PatchError(f"{place}: {name!r} is not the name of a file beside the series")
            if name in names:
                raise PatchError(f"{place}: {name} stands already in line {names[name]}")
            if not (directory / name).is_file():
                raise PatchError(f"{place}: there is no patch {name} in patches/{topic}")
            names[name] = number
            found.append(Patch(f"{topic}/{name}", directory / name))
    return found


def touched_files(patch: Patch) -> Touched:
    """The files a unified diff names, without the first component (``-p1``).

    Hunks are skipped by their line counts: a removed line that starts with ``-- `` looks like a header.
    """
    existing: list[str] = []
    created: list[str] = []
    lines = _header_lines(patch)
    old: str | None = None
    for line in lines:
        if line.startswith("GIT binary patch") or re.match(r"Binary files .* differ$", line):
            raise PatchError(f"{patch.name}: binary patches are not supported")
        if match := re.match(r"(rename|copy) (from|to) (.+)$", line):
            (existing if match[2] == "from" else created).append(_safe(patch, match[3], strip=False))
        elif line.startswith("--- "):
            old = _file_of(line)
        elif line.startswith("+++ ") and old is not None:
            new = _file_of(line)
            if old == "/dev/null":
                created.append(_safe(patch, new))
            else:
                path = _safe(patch, old if new == "/dev/null" else new)
                if path not in created:
                    existing.append(path)
            old = None
    if not existing and not created:
        raise PatchError(f"{patch.name}: no file header (--- a/… +++ b/…) found")
    return Touched(tuple(dict.fromkeys(existing)), tuple(dict.fromkeys(created)))


def _header_lines(patch: Patch) -> Iterator[str]:
    """The lines of a patch that are not inside a hunk."""
    before = after = 0
    for line in patch.path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        if before > 0 or after > 0:
            before -= line[:1] in (" ", "-", "")
            after -= line[:1] in (" ", "+", "")
        elif match := _HUNK.match(line):
            before, after = (int(count) if count is not None else 1 for count in match.groups())
        else:
            yield line


def _file_of(header: str) -> str:
    return header[4:].split("\t", 1)[0].rstrip()


def _safe(patch: Patch, name: str, *, strip: bool = True) -> str:
    """``name`` as a path below the tree; a patch may not reach outside it."""
    path = PurePosixPath(name)
    parts = path.parts[1:] if strip else path.parts
    if path.is_absolute() or ".." in path.parts or name.startswith('"') or not parts:
        raise PatchError(f"{patch.name}: names {name!r}, which is not a path inside the source")
    return "/".join(parts)


# --- applying ----------------------------------------------------------------------------------------


def stage_series(tree: Path, state: State, series: Sequence[Patch], stage: Path) -> list[str]:
    """Apply ``series`` to pristine copies in ``stage``; return every path it touches.

    ``src`` is only read. Raises PatchError on the first patch that does not apply exactly.
    """
    if stage.exists():
        shutil.rmtree(stage)
    stage.mkdir(parents=True)
    staged: dict[str, None] = {}
    for patch in series:
        touched = touched_files(patch)
        for path in touched.paths:
            if path not in staged:
                staged[path] = None
                _copy_pristine(tree, state, patch, path, stage / path)
        for path in touched.existing:
            if not (stage / path).is_file():
                raise PatchError(f"{patch.name}: changes {path}, which the source does not have")
        for path in touched.created:
            if (stage / path).exists():
                raise PatchError(f"{patch.name}: creates {path}, which exists already")
        _apply_one(patch, touched, stage)
    return list(staged)


def _copy_pristine(tree: Path, state: State, patch: Patch, path: str, to: Path) -> None:
    if path in state.pristine:
        source = tree / "orig" / path if state.pristine[path] else None
    else:
        source = tree / "src" / path
        for part in [source, *source.parents]:
            if part == tree:
                break
            if part.is_symlink():
                raise PatchError(f"{patch.name}: {path} goes through a symbolic link of the source")
        source = source if source.exists() else None
    if source is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to)


def _apply_one(patch: Patch, touched: Touched, stage: Path) -> None:
    # patch changes the files whose hunks do apply before it fails; what it found is wanted for advice.
    before = stage.with_name(stage.name + ".before")
    if before.exists():
        shutil.rmtree(before)
    before.mkdir()
    for path in touched.existing:
        _copy(stage / path, before / path)
    run = _run_patch(patch, stage, "--fuzz=0")
    if run.returncode == 0:
        return
    lines = run.stdout.splitlines()
    text = [f"{patch.name}: does not apply exactly (no fuzz is allowed)"]
    if any("previously applied" in line for line in lines):
        text[0] = f"{patch.name}: is already in the source (or reverses what is there)"
    file = "?"
    for line in lines:
        if match := re.match(r"(?:patching|checking) file '?(.+?)'?(?: \(.*\))?$", line):
            file = match[1]
        elif match := re.match(r"Hunk #(\d+) (FAILED|ignored) at (\d+)", line):
            text.append(f"    {file}: hunk {match[1]} at line {match[3]}")
        elif "malformed" in line or "garbage" in line or "unexpected" in line:
            text.append(f"    {line.removeprefix('patch: ').lstrip('*').strip()}")
    loose = _run_patch(patch, before, "--fuzz=3", "--dry-run")
    if loose.returncode == 0 and "with fuzz" in loose.stdout:
        text.append("    It would apply with fuzz: refresh the patch against this source.")
    raise PatchError("\n".join(text))


def _run_patch(patch: Patch, stage: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["patch", "-p1", "-N", "--no-backup-if-mismatch", "-r", "-", *options]
    return subprocess.run(
        [*command, "-i", str(patch.path.resolve())],
        cwd=stage,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )


def synchronise(tree: Path, state: State, stage: Path, staged: Iterable[str]) -> tuple[State, list[str]]:
    """Make ``src`` equal to pristine plus the staged series; return the new state and what was written.

    A file whose bytes do not change keeps its time, so make does not rebuild what depends on it. A file
    that changes gets a time later than anything in the tree, even if the clock was set back.
    """
    new_time = max(time.time(), state.closed_at + 1.0)
    written: list[str] = []
    pristine: dict[str, bool] = {}
    wanted = list(staged)
    for path in wanted:
        had = state.pristine.get(path, (tree / "src" / path).exists())
        pristine[path] = had
        if had and path not in state.pristine:
            _copy(tree / "src" / path, tree / "orig" / path)
        if _put(stage / path, tree / "src" / path, new_time):
            written.append(path)
    for path, had in state.pristine.items():
        if path not in pristine:
            if _put(tree / "orig" / path if had else None, tree / "src" / path, new_time):
                written.append(path)
            if had:
                (tree / "orig" / path).unlink()
    return State(state.identity, pristine, state.closed_at), written


def _put(source: Path | None, target: Path, new_time: float) -> bool:
    """Make ``target`` the same as ``source`` (None or missing: absent); say whether it changed."""
    if source is None or not source.exists():
        if not target.exists():
            return False
        target.unlink()
        return True
    executable = os.access(source, os.X_OK)
    if (
        target.is_file()
        and target.read_bytes() == source.read_bytes()
        and os.access(target, os.X_OK) == executable
    ):
        return False
    _copy(source, target)
    target.chmod(0o755 if executable else 0o644)
    os.utime(target, (new_time, new_time))
    return True


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy2(source, target)


# --- the marker --------------------------------------------------------------------------------------


def open_tree(tree: Path, identity: str) -> bool:
    """Take the tree into use; True when it holds this source already, False when it is now empty."""
    state = _load(tree / STATE)
    if state is not None and state.identity == identity and (tree / "src").is_dir():
        (tree / STATE).replace(tree / BUSY)
        return True
    for entry in sorted(tree.iterdir(), key=lambda path: path.name != STATE):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    _save(tree / BUSY, State(identity))
    return False


def apply(tree: Path, patches: Path, topics: Sequence[str], stage: Path) -> list[str]:
    """Bring ``src`` to pristine plus the series of ``topics``; return the files that were written."""
    state = _load(tree / BUSY)
    if state is None:
        raise PatchError(f"{tree} is not open")
    try:
        staged = stage_series(tree, state, read_series(patches, topics), stage)
    except PatchError:
        (tree / BUSY).replace(tree / STATE)
        raise
    state, written = synchronise(tree, state, stage, staged)
    _save(tree / BUSY, state)
    return written


def close_tree(tree: Path) -> None:
    """Declare the tree complete. Nothing that a build wrote may still be under way."""
    state = _load(tree / BUSY)
    if state is None:
        raise PatchError(f"{tree} is not open")
    _save(tree / BUSY, State(state.identity, state.pristine, max(time.time(), state.closed_at)))
    (tree / BUSY).replace(tree / STATE)


def _load(path: Path) -> State | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return None
        return State(str(data["identity"]), dict(data["pristine"]), float(data["closed_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(path: Path, state: State) -> None:
    text = json.dumps(
        {
            "format": FORMAT,
            "identity": state.identity,
            "pristine": dict(state.pristine),
            "closed_at": state.closed_at,
        },
        indent=1,
        sort_keys=True,
    )
    temporary = path.with_suffix(".new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 0 when done, 1 when a series or patch is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("open", "apply", "close"):
        sub = verbs.add_parser(verb)
        sub.add_argument("--tree", type=Path, required=True)
        if verb == "open":
            sub.add_argument("--identity", required=True)
        if verb == "apply":
            sub.add_argument("--patches", type=Path, required=True)
            sub.add_argument("--stage", type=Path, required=True)
            sub.add_argument("topics", nargs="*")
    given = parser.parse_args(arguments)
    try:
        if given.verb == "open":
            print("kept" if open_tree(given.tree, given.identity) else "fresh")
        elif given.verb == "apply":
            for path in apply(given.tree, given.patches, given.topics, given.stage):
                print(f"  PATCHED {path}")
        else:
            close_tree(given.tree)
    except PatchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
