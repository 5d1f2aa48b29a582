"""From the store to ``out/<board>/``: the artifacts, their checksums, and the manifest that explains them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from boardwright import __version__
from boardwright.build import digest
from boardwright.build.plan import Plan
from boardwright.build.step import Download, RootStep

if TYPE_CHECKING:
    from boardwright.build.store import Entry

STATE = ".published.json"


class Artifact(msgspec.Struct, frozen=True):
    """A file of ``out/<board>/``: the output ``path`` of ``step``, under ``name``."""

    name: str
    step: str
    path: str


def is_current(plan: Plan, artifacts: list[Artifact], out: Path) -> bool:
    """Whether ``out`` already holds exactly these artifacts, untouched since they were published."""
    try:
        state = json.loads((out / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(state == _state(plan, artifacts, out))


def publish(
    plan: Plan, entries: Mapping[str, Entry], artifacts: list[Artifact], manifest: dict[str, Any], out: Path
) -> None:
    """Copy the artifacts, write ``SHA256SUMS`` and ``manifest.json``. Each file appears whole or not at all.

    Two builds of one board publish one after the other. Raises ``HostError``, on a full disk for one.
    """
    from boardwright.build import locks
    from boardwright.build.store import host_error

    try:
        out.mkdir(parents=True, exist_ok=True)
        with locks.alone(out):
            _publish(plan, entries, artifacts, manifest, out)
    except OSError as error:
        raise host_error(error, out) from error


def _publish(
    plan: Plan, entries: Mapping[str, Entry], artifacts: list[Artifact], manifest: dict[str, Any], out: Path
) -> None:
    (out / STATE).unlink(missing_ok=True)
    sums = {a.name: entries[a.step].digests()[a.path] for a in artifacts}
    for artifact in artifacts:
        copy(entries[artifact.step].out / artifact.path, out / artifact.name)
    _write(out / "SHA256SUMS", "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))
    full = {**manifest, "artifacts": sums}
    _write(out / "manifest.json", json.dumps(full, indent=2, sort_keys=True) + "\n")
    _write(out / STATE, json.dumps(_state(plan, artifacts, out)))


def _state(plan: Plan, artifacts: list[Artifact], out: Path) -> dict[str, Any]:
    """What was published, and what changes when anybody touches it."""
    names = [*(artifact.name for artifact in artifacts), "SHA256SUMS", "manifest.json"]
    return {
        "keys": {name: plan[name].key for name in plan.targets},
        "files": {name: _fingerprint(out / name) for name in names},
    }


def _fingerprint(path: Path) -> list[int] | None:
    try:
        return digest.fingerprint(path.stat())
    except OSError:
        return None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def copy(source: Path, target: Path) -> None:
    """Copy a file, holes stay holes, by way of a temporary name. Raises ``OSError``."""
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        with source.open("rb", buffering=0) as origin, temporary.open("xb", buffering=0) as made:
            size = os.fstat(origin.fileno()).st_size
            made.truncate(size)
            for start, end in data_ranges(origin.fileno(), size):
                _copy_range(origin.fileno(), made.fileno(), start, end)
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def data_ranges(descriptor: int, size: int) -> list[tuple[int, int]]:
    """Where a file holds data, as ``(start, end)`` in bytes; the rest are holes."""
    ranges, position = [], 0
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        ranges.append((start, position))
    return ranges


def _copy_range(origin: int, made: int, start: int, end: int) -> None:
    while start < end:
        count = _copy_some(origin, made, start, end - start)
        if count == 0:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        start += count


def _copy_some(origin: int, made: int, start: int, count: int) -> int:
    """Copy without reading into our memory; the way that shares blocks works within one file system only."""
    try:
        return os.copy_file_range(origin, made, count, start, start)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    os.lseek(made, start, os.SEEK_SET)
    return os.sendfile(made, origin, start, count)


def describe(
    plan: Plan, entries: Mapping[str, Entry], request: Mapping[str, Any], root: Path
) -> dict[str, Any]:
    """The manifest without its artifacts: what was asked, from what it was made, by which keys."""
    return {
        "manifest": 1,
        "tool": {"name": "boardwright", "version": __version__, "revision": revision(root)},
        **request,
        "steps": {
            name: {"key": planned.key, "needs": list(planned.needs), "record": planned.record}
            for name, planned in plan.steps.items()
        },
        "inputs": _inputs(plan),
        "outputs": {name: entry.digests() for name, entry in entries.items()},
    }


def _inputs(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Every package and file taken from outside, by step."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, planned in plan.steps.items():
        if isinstance(planned.step, RootStep):
            found[name] = [
                {"name": p.name, "version": p.version, "architecture": p.architecture, "sha256": p.sha256}
                for p in planned.step.packages
            ]
        else:
            given = [d for d in planned.step.inputs.values() if isinstance(d, Download)]
            found[name] = [{"path": d.path, "size": d.size, "sha256": d.sha256} for d in given]
    return {name: rows for name, rows in found.items() if rows}


def revision(root: Path) -> str:
    """The project's git revision, with ``-dirty`` when files differ from it; ``unknown`` outside git."""
    import subprocess

    with contextlib.suppress(OSError):
        result = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0:
            return result.stdout.strip()
    return "unknown"
