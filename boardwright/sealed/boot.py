"""The boot partition: FAT32 made in place in the image by mkfs.vfat and mtools, and read back.

Names are copied one by one in sorted order, since ``mcopy -s`` follows the order of the host's
directories. The tools take the time from SOURCE_DATE_EPOCH. Standard library only.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from .inuse import Image
from .tooling import Fault, run, size

SECTOR = 512
_SMALLEST_FAT32 = 65525
_MOST_RESERVED = 2 * 8 + 32
"""Sectors and clusters that mkfs.vfat may lose to alignment, with a margin."""


def contents(partition: dict[str, Any], inputs: Path) -> dict[str, Path]:
    """Path in the partition to source, directories unfolded, sorted. Raises Fault for a missing source."""
    found: dict[str, Path] = {}
    for entry in partition["files"]:
        source, target = inputs / entry["source"], PurePosixPath(entry["target"])
        if not source.exists():
            raise Fault(f"{entry['target']} of partition {partition['name']}: there is no {source}")
        below = [p for p in source.rglob("*") if p.is_file()] if source.is_dir() else [source]
        found |= {str(target / p.relative_to(source)) if p != source else str(target): p for p in below}
    return dict(sorted(found.items()))


def make(image: Path, partition: dict[str, Any], files: dict[str, Path]) -> None:
    """Make the file system and copy the files. Raises Fault, which says how much room is missing."""
    sectors, offset = partition["size"] // SECTOR, partition["offset"]
    per_cluster = sectors_per_cluster(sectors)
    _check_room(partition, files, per_cluster * SECTOR)
    geometry = f"-F 32 -S {SECTOR} -s {per_cluster} -h {offset // SECTOR} --offset {offset // SECTOR}"
    # --invariant sets a serial number of its own, so ours has to follow it.
    identity = ["--invariant", "-i", partition["serial"], "-n", partition["label"], "--mbr=n"]
    run(["mkfs.vfat", *geometry.split(), *identity, str(image), str(sectors * SECTOR // 1024)])
    drive = ["-i", f"{image}@@{offset}"]
    if directories := _directories(files):
        run(["mmd", *drive, *(f"::/{d}" for d in directories)])
    for directory in ["", *directories]:
        here = {t: s for t, s in files.items() if _parent(t) == directory}
        same = [str(s) for t, s in here.items() if s.name == PurePosixPath(t).name]
        if same:
            run(["mcopy", *drive, "-b", *same, f"::/{directory}"])
        for target, source in here.items():
            if source.name != PurePosixPath(target).name:
                run(["mcopy", *drive, "-b", str(source), f"::/{target}"])


def check(image: Path, partition: dict[str, Any], files: dict[str, Path], work: Path) -> None:
    """The partition is sound and holds these files, byte for byte, and no others. Raises Fault."""
    copy, out = _copy(partition, work), work / f"{partition['name']}.files"
    _copy_out(image, partition, copy)
    run(["fsck.vfat", "-n", str(copy)])
    out.mkdir()
    run(["mcopy", "-s", "-n", "-i", str(copy), "::/*", str(out)])
    held = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    for name in sorted(held ^ files.keys()):
        state = "is not in" if name in files else "should not be in"
        raise Fault(f"{name} {state} partition {partition['name']}")
    for name, source in files.items():
        if not filecmp.cmp(source, out / name, shallow=False):
            raise Fault(f"{name} in partition {partition['name']} differs from {source}")


def check_unchanged(image: Image, partition: dict[str, Any], work: Path) -> None:
    """The partition still is what :func:`check` saw. Raises Fault."""
    offset = partition["offset"]
    with _copy(partition, work).open("rb", buffering=0) as copy:
        for start, end in _data(copy.fileno(), 0, partition["size"]):
            if os.pread(copy.fileno(), end - start, start) != image.read(offset + start, offset + end):
                raise Fault(f"partition {partition['name']} was overwritten after it was made")


def _copy(partition: dict[str, Any], work: Path) -> Path:
    return work / f"{partition['name']}.fat"


def sectors_per_cluster(sectors: int) -> int:
    """The largest clusters, up to 4 KiB, that leave enough of them for a FAT32."""
    for count in (8, 4, 2):
        tables = 2 * -(-(sectors // count + 2) * 4 // SECTOR)
        if (sectors - tables - _MOST_RESERVED) // count >= _SMALLEST_FAT32 + _MOST_RESERVED:
            return count
    return 1


def _check_room(partition: dict[str, Any], files: dict[str, Path], cluster: int) -> None:
    """One cluster a directory is a lower bound; mcopy still tells when long lists of names do not fit."""
    needed = sum(-(-s.stat().st_size // cluster) for s in files.values()) + len(_directories(files)) + 1
    clusters = partition["size"] // cluster
    available = clusters - -(-2 * 4 * clusters // cluster) - _MOST_RESERVED
    if needed > available:
        raise Fault(
            f"partition {partition['name']} is too small by {size((needed - available) * cluster)}: its "
            f"{len(files)} files need {size(needed * cluster)}, it has room for {size(available * cluster)}"
        )


def _directories(files: dict[str, Path]) -> list[str]:
    parents = {str(parent) for target in files for parent in PurePosixPath(target).parents}
    return sorted(parents - {"."})


def _parent(target: str) -> str:
    return str(PurePosixPath(target).parent).removeprefix(".")


def _copy_out(image: Path, partition: dict[str, Any], target: Path) -> None:
    """The bytes of a partition as a file, free space as a hole: fsck.vfat knows no offset."""
    offset = partition["offset"]
    with image.open("rb", buffering=0) as source, target.open("xb", buffering=0) as copy:
        copy.truncate(partition["size"])
        for start, end in _data(source.fileno(), offset, offset + partition["size"]):
            os.lseek(copy.fileno(), start - offset, os.SEEK_SET)
            while start < end:
                start += os.sendfile(copy.fileno(), source.fileno(), start, end - start)


def _data(file: int, position: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a file between two positions that are not holes, 16 MiB at most."""
    while position < end:
        try:
            start = os.lseek(file, position, os.SEEK_DATA)
        except OSError:  # a hole to the end
            return
        position = min(end, start + 2**24, os.lseek(file, start, os.SEEK_HOLE))
        if start < position:
            yield start, position
