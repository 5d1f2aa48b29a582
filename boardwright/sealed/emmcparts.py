"""One file a partition of an eMMC without a table: file systems no larger than they must be, headers.

``/in/parts.json``: ``{"parts": [{"name", "size", "kind", …}]}``, ``size`` of the partition, ``kind`` one of

- ``ext4``: of ``tar`` (below ``/in``; none: empty), with ``uuid``, ``hash-seed``, ``label``, ``requires``;
  the file system has room for the tarball and ``spare`` bytes, and is grown on the board; ``without``:
  patterns of names that the tarball is made without, ``files``: a directory that is laid over it
- ``tar``: the directory ``files`` as ``/out/<name>.tar``
- ``image``: ``source`` behind an Axera header
- ``bytes``: ``base64`` of what the partition begins with, and its ``length`` with zeros behind

``/out/<name>.img``. Run as ``python3 -m sealed.emmcparts`` in ``/in``, standard library only.
"""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import axera, inuse, root, tartree
from .tooling import Fault, run, size

GRANULE = 4 * 2**20
BARE = 64 * 2**20
"""Of a file system that nothing was put in: room enough for a journal, which growing leaves as it is."""


def main(inputs: Path = Path("/in"), work: Path = Path("/work"), out: Path = Path("/out")) -> int:
    """Exit status of the step; a fault is told on standard error."""
    wanted = json.loads((inputs / "parts.json").read_text())
    try:
        for part in wanted["parts"]:
            image = out / f"{part['name']}.{'tar' if part['kind'] == 'tar' else 'img'}"
            make = {"ext4": _ext4, "image": _image, "bytes": _bytes, "tar": _tar}[part["kind"]]
            make(image, part, inputs, work)
            found = image.stat().st_size
            if found > part["size"]:
                raise Fault(
                    f"partition {part['name']} is too small by {found - part['size']:,} bytes: "
                    f"it has {part['size']:,}, its contents {found:,}"
                )
            print(f"{part['name']}: {size(found)} of {size(part['size'])}")
    except (Fault, tartree.Fault, OSError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    return 0


def fitted(survey: root.Survey, spare: int) -> int:
    """Bytes for an ext4 that holds the tarball: its blocks, its inodes, a twentieth, and the spare."""
    data = survey.blocks * root.BLOCK
    inodes = (survey.inodes + root.SPARE_INODES) * (256 + 16)
    wanted = data + inodes + data // 20 + spare + BARE
    # One inode for every 16 KiB (root.py): many small files need a larger file system than their bytes.
    wanted = max(wanted, (survey.inodes + root.SPARE_INODES) * 16384)
    return -(-wanted // GRANULE) * GRANULE


def _ext4(image: Path, part: dict[str, Any], inputs: Path, work: Path) -> None:
    place = {**part, "offset": 0, "release": None}
    if not part.get("tar"):
        place["size"] = min(BARE, part["size"])
        _new(image, place["size"])
        run(["mke2fs", *root._options(place, "offset=0"), str(image)])
        run(["e2fsck", "-f", "-n", str(image)])
        return
    tar = inputs / part["tar"]
    if part.get("without") or part.get("files"):
        tar = work / f"{part['name']}.tar"
        _tar(tar, part, inputs, work)
    survey = root.survey(tar)
    if part.get("files") and (wanted := fitted(survey, part["spare"])) > part["size"]:
        raise Fault(
            f"partition {part['name']} is too small by {wanted - part['size']:,} bytes: it has "
            f"{part['size']:,}, what goes into it needs {wanted:,}"
        )
    place["size"] = min(fitted(survey, part["spare"]), part["size"] // GRANULE * GRANULE)
    _new(image, place["size"])
    root.end(root.begin(image, place, tar), image, place, survey, work)
    with image.open("rb") as file:
        superblock = inuse.Superblock(inuse.Image(file), 0)
        root.check(image, place, survey, superblock, part["requires"], work)


def _tar(image: Path, part: dict[str, Any], inputs: Path, work: Path) -> None:  # noqa: ARG001
    with tartree.Tree() as tree:
        if part.get("tar"):
            tree.add_tar(inputs / part["tar"])
        if patterns := part.get("without"):
            gone = tree.drop(lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
            print(f"{part['name']}: {len(gone)} names left out: {', '.join(patterns)}")
        if part.get("files"):
            tree.add_directory(inputs / part["files"], part["name"])
        tree.write(image, int(os.environ["SOURCE_DATE_EPOCH"]))


def _image(image: Path, part: dict[str, Any], inputs: Path, work: Path) -> None:  # noqa: ARG001
    payload = (inputs / part["source"]).read_bytes()
    image.write_bytes(axera.header(payload) + payload)


def _bytes(image: Path, part: dict[str, Any], inputs: Path, work: Path) -> None:  # noqa: ARG001
    image.write_bytes(base64.b64decode(part["base64"]).ljust(part["length"], b"\0"))


def _new(image: Path, length: int) -> None:
    with image.open("xb") as file:
        os.truncate(file.fileno(), length)


if __name__ == "__main__":
    sys.exit(main())
