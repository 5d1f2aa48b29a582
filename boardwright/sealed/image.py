"""Put a disk image together without root, loop devices or mounts, open it again, and map its blocks.

``/in/layout.json`` says what goes where (``boardwright/layout/description.py``). The second CPU is not
idle while mke2fs writes the root: the boot partition is made and checked then and the tarball surveyed;
and the finished image is checked while its blocks are hashed. Run as ``python3 -m sealed.image`` in
``/in``, standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import bmap, boot, gpt, inuse, root
from .tooling import Fault, size

Layout = dict[str, Any]


def main(inputs: Path = Path("/in"), work: Path = Path("/work"), out: Path = Path("/out")) -> int:
    """Exit status of the step; a fault is told on standard error."""
    layout = json.loads((inputs / "layout.json").read_text())
    image = out / layout["image"]
    try:
        surveys = assemble(image, layout, inputs, work)
        publish(image, layout, inputs, surveys, work, int(os.environ.get("JOBS", "2")))
    except (Fault, OSError) as fault:  # OSError: an input cannot be read, the disk is full
        print(f"error: {fault}", file=sys.stderr)
        if shutil.disk_usage(out).free < 2**20:  # mkfs.vfat, for one, does not tell
            print(f"error: No space left on device: {out} is full", file=sys.stderr)
        return 1
    return 0


def assemble(image: Path, layout: Layout, inputs: Path, work: Path) -> dict[str, root.Survey]:
    """Write every byte of the image; what the tarballs hold, by partition."""
    with image.open("xb") as file:
        file.truncate(layout["size"])
    roots = [p for p in layout["partitions"] if p["filesystem"] == "ext4"]
    running = [root.begin(image, p, inputs / p["tar"]) for p in roots]
    try:
        gpt.make(image, layout)
        for hole in layout["holes"]:
            _fill(image, hole, inputs)
        for partition in layout["partitions"]:
            if partition["filesystem"] == "vfat":
                files = boot.contents(partition, inputs)
                boot.make(image, partition, files)
                boot.check(image, partition, files, work)
                print(f"{partition['name']}: {len(files)} files")
        surveys = {p["name"]: root.survey(inputs / p["tar"]) for p in roots}
        for process, partition in zip(running, roots, strict=True):
            root.end(process, image, partition, surveys[partition["name"]], work)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return surveys


def _fill(image: Path, hole: dict[str, Any], inputs: Path) -> None:
    if hole["source"] is None:
        return
    source = inputs / hole["source"]
    length = source.stat().st_size
    if length > hole["size"]:
        raise Fault(
            f"{hole['source']} is too large for hole {hole['name']} by {length - hole['size']:,} bytes: "
            f"it has {length:,}, the hole {hole['size']:,}"
        )
    with image.open("r+b") as file:
        file.seek(hole["offset"])
        file.write(source.read_bytes())


def publish(
    image: Path, layout: Layout, inputs: Path, surveys: dict[str, root.Survey], work: Path, jobs: int
) -> None:
    """Check the image as it now is on disk, and write its bmap."""
    with image.open("rb") as file, ThreadPoolExecutor(1) as beside:
        view = inuse.Image(file)
        checked = beside.submit(check, image, view, layout, inputs, surveys, work)
        used = inuse.spans(view, layout)
        text = bmap.write(view, used, jobs)
        checked.result()
    (image.parent / layout["bmap"]).write_text(text)
    print(f"{image.name}: {size(layout['size'])}, {size(sum(end - start for start, end in used))} to write")


def check(
    image: Path, view: inuse.Image, layout: Layout, inputs: Path, surveys: dict[str, root.Survey], work: Path
) -> None:
    """Open the image again with other tools than made it. Raises Fault at the first difference."""
    gpt.check(image, layout)
    for hole in layout["holes"]:
        _check_hole(view, hole, inputs)
    for partition in layout["partitions"]:
        if partition["filesystem"] == "vfat":
            boot.check_unchanged(view, partition, work)
        else:
            superblock = inuse.Superblock(view, partition["offset"])
            required = _required(partition, inputs)
            root.check(image, partition, surveys[partition["name"]], superblock, required, work)


def _check_hole(view: inuse.Image, hole: dict[str, Any], inputs: Path) -> None:
    wanted = (inputs / hole["source"]).read_bytes() if hole["source"] else b""
    start, end = hole["offset"], hole["offset"] + hole["size"]
    if view.read(start, end) != wanted.ljust(hole["size"], b"\0"):
        raise Fault(f"hole {hole['name']} does not hold {hole['source'] or 'zeros'} and nothing else")


def _required(partition: dict[str, Any], inputs: Path) -> list[str]:
    required = list(partition["requires"])
    if partition["release"]:
        release = (inputs / partition["release"]).read_text().strip()
        required.append(f"/usr/lib/modules/{release}/modules.dep")
    return required


if __name__ == "__main__":
    sys.exit(main())
