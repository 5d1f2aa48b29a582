"""How long from a root tarball to the finished image and block map, against bare ``mke2fs -d``.

    python benchmarks/image_assembly.py --tools ROOT --rootfs rootfs.tar [--runs 7] [--work DIR]

``--tools`` is an unpacked environment (``invoke shell`` prints where one is). Both are run in the same
sandbox, in turn, on the same file system. Prints seconds (min, median, max) and the ratio of the medians;
ends with 1 when the ratio is above the limit.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from boardwright.build.sandbox import Seal, argv
from boardwright.layout.description import describe
from boardwright.layout.partitions import resolve
from boardwright.schema.board import Disk, Hole, Partition
from boardwright.schema.units import Size

LIMIT = 1.25
CODE = Path(__file__).parents[1] / "boardwright"
SEALED = ("image.py", "bmap.py", "boot.py", "gpt.py", "inuse.py", "root.py", "tooling.py")
KERNEL_SIZE = 36 * 2**20
"""Of Debian's arm64 Image, 6.12."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--rootfs", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as directory:
        work = Path(directory)
        _inputs(work / "in", options.rootfs)
        options.rootfs.read_bytes()  # the page cache is warm for both
        bare, whole = [], []
        for _ in range(options.runs):
            bare.append(_timed(options.tools, work, options.rootfs, _BARE))
            whole.append(_timed(options.tools, work, options.rootfs, (CODE / "kinds/image.sh").read_text()))
    _report("bare mke2fs -d", bare)
    _report("image and bmap", whole)
    ratio = statistics.median(whole) / statistics.median(bare)
    print(f"ratio {ratio:.2f}, at most {LIMIT}")
    return 0 if ratio <= LIMIT else 1


_BARE = "truncate -s 1775M /out/bare.img; mke2fs -q -F -t ext4 -d /in/rootfs.tar /out/bare.img"


def _inputs(target: Path, rootfs: Path) -> None:
    size = Size.parse
    hole = Hole(name="loader", offset=size("32KiB"), size=size("8160KiB"), contents="loader.img")
    table = resolve(
        Disk(size=size("2GiB"), holes=[hole]),
        [
            Partition(name="boot", size=size("256MiB"), filesystem="vfat", contents="boot"),
            Partition(name="root", size="rest", filesystem="ext4", contents="rootfs", grow=True),
        ],
    )
    target.mkdir()
    (target / "Image").write_bytes(rootfs.open("rb").read(KERNEL_SIZE))
    (target / "loader.img").write_bytes(b"\xaa" * 2**20)
    layout = describe(
        table,
        "benchmark",
        board="board",
        boot_files={"Image": "Image"},
        loader={"loader.img": "loader.img"},
        requires=[],
    )
    (target / "layout.json").write_text(layout)


def _timed(tools: Path, work: Path, rootfs: Path, script: str) -> float:
    """Seconds that a script takes in the sandbox. Ends the benchmark when it fails."""
    for name in ("out", "work"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).mkdir()
    inputs = {f"/in/{path.name}": path for path in (work / "in").iterdir()}
    code = {f"/in/sealed/{name}": CODE / "sealed" / name for name in SEALED}
    seal = Seal(
        root=tools,
        read_only={**inputs, **code, "/in/rootfs.tar": rootfs},
        writable={"/work": work / "work", "/out": work / "out"},
        variables={"JOBS": "2", "SOURCE_DATE_EPOCH": "1700000000"},
        directory="/work",
    )
    command = argv(seal, ["/bin/bash", "-euo", "pipefail", "-c", script])
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def _report(name: str, seconds: list[float]) -> None:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    print(f"{name}: {low:.2f} / {middle:.2f} / {high:.2f} s (min / median / max of {len(seconds)})")


if __name__ == "__main__":
    sys.exit(main())
