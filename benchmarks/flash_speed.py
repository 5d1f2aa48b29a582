"""How near writing and reading back come to a disk's own bandwidth, and how far from bmaptool and a compare.

    python benchmarks/flash_speed.py --image out/rock5b/rock5b.img [--rates 20 90 0] [--runs 1] [--work DIR]

The disk is a loop device over a file that holds zeros, without the page cache below; its rate, in MB/s each
way (0: as fast as it goes), is held by the kernel's block throttle (cgroup v1, blkio.throttle, at the root,
so that written-back pages count as well). The time a disk allows is mapped bytes / rate, once for writing and
once for reading; for a disk without a throttle the rates are measured first, with O_DIRECT and 4 MiB a call.

Two compares stand after ``bmaptool copy``: ``cmp`` of image and disk, which is what there is without a tool
that reads maps, and one of the mapped ranges only. The cache of the disk is dropped before either. Needs root
and Debian's bmap-tools. Ends with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from boardwright.flash import devices, run
from boardwright.flash.journal import Journal
from boardwright.flash.medium import open_device
from boardwright.flash.source import Image, find

OVER_BANDWIDTH, OVER_BMAPTOOL, MEMORY = 1.05, 1.5, 100e6
COMPARED_AT = 90
_THROTTLE = Path("/sys/fs/cgroup/blkio")
_BLKFLSBUF = 0x1261
_MIB = 2**20


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--rates", type=int, nargs="+", default=[20, 90, 0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    image = find(options.image)
    if options.ours:
        return _ours(image, options.ours)
    mapped, size = image.bmap.mapped_bytes / 1e6, image.bmap.image_size / 1e6
    print(f"{image.path.name}: {mapped:.0f} of {size:.0f} MB are mapped")
    good = True
    with _disk(options.work, image.bmap.image_size + 64 * _MIB) as disk:
        for rate in options.rates:
            with _throttled(disk, rate * 10**6):
                good &= _one_rate(image, disk, rate, options.runs)
    return 0 if good else 1


def _one_rate(image: Image, disk: Path, rate: int, runs: int) -> bool:
    write, read = (rate * 1e6, rate * 1e6) if rate else _measured(disk)
    allowed = image.bmap.mapped_bytes * (1 / write + 1 / read)
    print(f"\n{f'{rate} MB/s' if rate else 'no throttle'}: the disk allows {allowed:.2f} s"
          f" (writes {write / 1e6:.0f}, reads {read / 1e6:.0f} MB/s)")  # fmt: skip
    ours, copies, whole, mapped, memory = [], [], [], [], 0.0
    for _ in range(runs):
        seconds, peak = _command([sys.executable, __file__, "--image", image.path, "--ours", disk])
        ours.append(seconds)
        memory = max(memory, peak)
        copies.append(_command(["bmaptool", "-q", "copy", "--bmap", _map(image), image.path, disk])[0])
        _forget(disk)
        mapped.append(_timed(lambda: _compare_mapped(image, disk)))
        _forget(disk)
        whole.append(_command(["cmp", "-n", str(image.bmap.image_size), image.path, disk])[0])
    mine, copy = statistics.median(ours), statistics.median(copies)
    with_cmp, with_mapped = copy + statistics.median(whole), copy + statistics.median(mapped)
    print(
        f"  boardwright, read back: {mine:.2f} s, {mine / allowed:.3f} x what the disk allows;"
        f" peak {memory / 1e6:.0f} MB"
    )
    print(f"  bmaptool copy: {copy:.2f} s; with cmp {with_cmp:.2f} s, {with_cmp / mine:.2f} x boardwright;"
          f" with the mapped ranges only {with_mapped:.2f} s, {with_mapped / mine:.2f} x")  # fmt: skip
    good = mine <= OVER_BANDWIDTH * allowed and memory < MEMORY
    if rate == COMPARED_AT:
        good &= with_cmp >= OVER_BMAPTOOL * mine
    print(f"  limits {'kept' if good else 'MISSED'}")
    return good


def _ours(image: Image, disk: Path) -> int:
    """What ``invoke flash`` does once the disk is confirmed; a loop device has no serial number."""
    device = next(d for d in devices.found(needed=image.bmap.image_size) if d.path == disk)
    assert not device.refusals, device.refusals
    medium = open_device(device)
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = run.flash(image, medium, Journal(Path(directory) / "x.json", "x"), marks=True)
        finally:
            medium.close()
    print(f"  ({done.write_seconds:.2f} s writing, {done.verify_seconds:.2f} s reading back)", flush=True)
    return 0


def _map(image: Image) -> Path:
    return image.path.with_suffix(".bmap")


def _compare_mapped(image: Image, disk: Path) -> None:
    """Holes differ, as they may; a mapped range must not."""
    with image.path.open("rb", buffering=0) as first, disk.open("rb", buffering=0) as second:
        for start, end in map(image.bmap.span, image.bmap.ranges):
            first.seek(start)
            second.seek(start)
            left = end - start
            while left:
                a, b = (file.read(min(left, _MIB)) for file in (first, second))
                assert a == b != b"", start
                left -= len(a)


def _command(words: list[str | Path]) -> tuple[float, float]:
    """Seconds and peak memory in bytes of a program (its own, without the children's)."""
    begun = time.monotonic()
    process = subprocess.Popen([str(word) for word in words])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{words[0]} ended with {process.returncode}")
    return seconds, usage.ru_maxrss * 1024.0


def _timed(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _forget(disk: Path) -> None:
    with disk.open("rb") as file:
        os.fsync(file.fileno())
        fcntl.ioctl(file, _BLKFLSBUF)


def _measured(disk: Path) -> tuple[float, float]:
    """Bytes a second by dd, 400 MiB each way."""
    size = 100 * 4 * _MIB
    write = _command(
        ["dd", "if=/dev/zero", f"of={disk}", "bs=4M", "count=100", "oflag=direct", "status=none"]
    )[0]
    read = _command(
        ["dd", f"if={disk}", "of=/dev/null", "bs=4M", "count=100", "iflag=direct", "status=none"]
    )[0]
    return size / write, size / read


@contextlib.contextmanager
def _disk(work: Path, size: int) -> Iterator[Path]:
    """A loop device whose every block is written already, so that none is allocated while it is timed."""
    with tempfile.TemporaryDirectory(dir=work) as directory:
        backing = Path(directory) / "disk"
        with backing.open("wb") as file:
            for _ in range(size // _MIB):
                file.write(bytes(_MIB))
            os.fsync(file.fileno())
        command = ["losetup", "--find", "--show", "--direct-io=on", str(backing)]
        disk = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield Path(disk)
        finally:
            subprocess.run(["losetup", "--detach", disk], check=True)


@contextlib.contextmanager
def _throttled(disk: Path, rate: int) -> Iterator[None]:
    """``rate`` in bytes a second each way; 0 for none."""
    number = Path(f"/sys/block/{disk.name}/dev").read_text().strip()
    files = [_THROTTLE / f"blkio.throttle.{way}_bps_device" for way in ("read", "write")]
    if rate and not files[0].exists():
        sys.exit("expected the blkio controller of cgroup v1 at /sys/fs/cgroup/blkio")
    try:
        for file in files if rate else ():
            file.write_text(f"{number} {rate}\n")
        yield
    finally:
        for file in files if rate else ():
            file.write_text(f"{number} 0\n")


if __name__ == "__main__":
    sys.exit(main())
