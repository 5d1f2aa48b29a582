"""A vendor's ext4 image, changed without mounting it: made smaller or larger, and files put into it.

e2fsprogs do the work, sealed: :data:`Tool` runs one of them where the image lies. What was written is read
back, and the file system is checked, before anybody gets it.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardwright.build.digest import of_file
from boardwright.errors import InputError, ProductError
from boardwright.layout.extents import PlacedPartition
from boardwright.schema.units import Size

Tool = Callable[[list[str], Path], str]
"""Run an e2fsprogs command with a directory as ``/work``; what it printed. Raises ``ProductError``."""
STEP = 64 * 2**20
_FIELD = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+):\s+(?P<value>\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Added:
    """``name``: its path in the file system, without a slash. ``source``: below the image's directory."""

    name: str
    source: Path
    mode: int = 0o644


def shrunk(raw: Path, partition: PlacedPartition, tool: Tool) -> str:
    """Make the file system as large as its partition. Raises ``InputError`` when its files do not fit."""
    was = raw.stat().st_size
    tool(["e2fsck", "-f", "-p", raw.name], raw.parent)
    said = tool(["resize2fs", "-P", raw.name], raw.parent)
    block = superblock(raw, tool)["Block size"]
    found = re.search(r"minimum size of the filesystem: (\d+)", said)
    if found is None:
        raise ProductError(f"resize2fs -P names no size: {said.strip()[-200:]!r}")
    if (least := int(found[1]) * block) > partition.size:
        raise InputError(
            f"partition {partition.name} has {partition.size} bytes; the vendor's files need {least}",
            hint=larger(partition, least),
        )
    tool(["resize2fs", raw.name, f"{partition.size // 1024}K"], raw.parent)
    with raw.open("r+b") as file:
        file.truncate(partition.size // block * block)
    tool(["e2fsck", "-f", "-n", raw.name], raw.parent)
    return f"made smaller from {was} to {raw.stat().st_size} bytes"


def filled(raw: Path, partition: PlacedPartition, tar: Path, tool: Tool) -> str:
    """Put the files of a tarball into it. Raises ``InputError`` when there is no room for them."""
    block = superblock(raw, tool)["Block size"]
    if raw.stat().st_size < (size := partition.size // block * block):
        tool(["e2fsck", "-f", "-p", raw.name], raw.parent)
        with raw.open("r+b") as file:
            file.truncate(size)
        tool(["resize2fs", raw.name], raw.parent)
    added = list(_unpacked(tar, raw.parent / f"{partition.name}.files"))
    free = superblock(raw, tool)["Free blocks"] * block
    # Directories, extents, and a hundredth for both.
    needed = sum(-(-one.source.stat().st_size // block) * block for one in added) * 101 // 100 + 64 * block
    if needed > free:
        raise InputError(
            f"partition {partition.name} has {free} bytes free beside the vendor's files, and the models of "
            f"local.yaml need {needed}",
            hint=f"{larger(partition, partition.size + needed - free)}; or ask for fewer models",
        )
    put(raw, added, tool)
    return f"added {', '.join(f'{partition.mount}/{one.name}' for one in added)}"


def larger(partition: PlacedPartition, need: int) -> str:
    """What to change in the board file, in steps of 64 MiB."""
    size = -(-need // STEP) * STEP
    return (
        f"give {partition.name} {Size(size)} in the board file; where another takes that from it, as rootfs "
        f"from a last one with `size: rest`, make that one {Size(size - partition.size)} smaller"
    )


def put(raw: Path, added: Sequence[Added], tool: Tool) -> None:
    """Write files of root's in place of what has their names. Raises ``InputError`` when they are not in."""
    requests = []
    # debugfs leaves an orphan when it is to make a directory that is there (e2fsprogs 1.47.0).
    for directory in sorted({above for one in added for above in _above(one.name)}):
        if "Inode:" not in tool(["debugfs", "-R", f"stat {directory}", raw.name], raw.parent):
            requests.append(f"mkdir {directory}")
    for one in added:
        path, local = f"/{one.name}", one.source.relative_to(raw.parent)
        requests += [f"rm {path}", f"write {local} {path}"]
        requests += [f"sif {path} {field}" for field in (f"mode 0100{one.mode:o}", "uid 0", "gid 0")]
    script = raw.parent / "put.debugfs"
    script.write_text("".join(f"{request}\n" for request in requests))
    tool(["debugfs", "-w", "-f", script.name, raw.name], raw.parent)
    tool(["e2fsck", "-f", "-n", raw.name], raw.parent)
    for one in added:
        back = raw.parent / "read.back"
        back.unlink(missing_ok=True)
        tool(["debugfs", "-R", f"dump /{one.name} {back.name}", raw.name], raw.parent)
        if not back.exists() or of_file(back) != of_file(one.source):
            raise InputError(f"/{one.name} is not what was written into it: is that file system full?")


def superblock(raw: Path, tool: Tool) -> dict[str, int]:
    """Numbers of ``dumpe2fs -h`` by name: ``Block size``, ``Free blocks``. Raises ``ProductError``."""
    said = tool(["dumpe2fs", "-h", raw.name], raw.parent)
    found = {match["name"]: int(match["value"]) for match in _FIELD.finditer(said)}
    if not found.keys() >= {"Block size", "Free blocks"}:
        raise ProductError(f"dumpe2fs finds no ext4 file system: {said.strip()[-200:]!r}")
    return found


def _above(name: str) -> Iterator[str]:
    """``/a`` and ``/a/b`` of ``a/b/c``."""
    parts = name.split("/")
    return ("/" + "/".join(parts[:end]) for end in range(1, len(parts)))


def _unpacked(tar: Path, directory: Path) -> Iterator[Added]:
    """The plain files of a tarball that a step of ours made."""
    with tarfile.open(tar) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                path = directory / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as target:
                    shutil.copyfileobj(file, target, 2**20)
                yield Added(member.name, path)
