"""Mesa's aligned copies (topic aligned-access): on normal memory against memcpy, on a device's against bytes.

Without --device: the ratio of util_copy_to_mapped to memcpy on this machine; the promise is at most 1.10
from 64 bytes to 1 MiB. With --device PATH, on an arm64 machine: the factor by which the aligned copy into a
mapping of PATH is faster than a loop over bytes. Where a device is emulated, that factor counts the
emulator's accesses and says nothing about a PCIe link; there a packet carries 1 byte or 16 and costs about
the same.

    python benchmarks/aligned_copy.py
    python benchmarks/aligned_copy.py --cc aarch64-linux-gnu-gcc --build-only aligned_copy   # to carry over
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATCH = ROOT / "patches/mesa/aligned-access/0001-util-device-memory.patch"
SOURCES = (ROOT / "benchmarks/aligned_copy.c", "u_device_memory.c")
FLAGS = ("-O3", "-std=gnu11", "-static", "-DUTIL_DEVICE_MEMORY_ANY_ARCH")
"""As Mesa's release build is optimised; with the branch, which only arm64 has, on any machine."""
PROMISE = 1.10


def build(compiler: str, program: Path) -> None:
    """Compile the measuring program with the helper of the patch, optimised as Mesa's release build is."""
    program = program.absolute()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["git", "apply", "--include=src/util/u_device_memory.*", PATCH], cwd=scratch, check=True
        )
        helper = Path(scratch, "src/util")
        subprocess.run(
            [compiler, *FLAGS, f"-I{helper}", "-o", program, *SOURCES],
            cwd=helper,
            check=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--build-only", type=Path, metavar="PROGRAM")
    parser.add_argument("--device", help="file to map, e.g. a BAR below /sys/bus/pci/devices")
    parser.add_argument("--offset", default="0", help="where in it, bytes")
    asked = parser.parse_args()
    if asked.build_only:
        build(asked.cc, asked.build_only)
        return

    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "aligned_copy")
        build(asked.cc, program)
        where = ["--device", asked.device, "--offset", asked.offset] if asked.device else []
        lines = subprocess.run([program, *where], check=True, text=True, stdout=subprocess.PIPE).stdout
    rows = [json.loads(line) for line in lines.splitlines()]

    theirs = "bytes" if asked.device else "memcpy"
    print(f"{'size':>9} {'aligned':>12} {theirs:>12} {'factor' if asked.device else 'ratio':>8}")
    for row in rows:
        ours_ns, theirs_ns = row["ours_ns"], row["theirs_ns"]
        figure = theirs_ns / ours_ns if asked.device else ours_ns / theirs_ns
        print(f"{row['bytes']:>9} {ours_ns:>9.1f} ns {theirs_ns:>9.1f} ns {figure:>8.2f}")
    if not asked.device:
        worst = max(row["ours_ns"] / row["theirs_ns"] for row in rows)
        print(f"worst ratio {worst:.3f}, promised {PROMISE:.2f}")
        sys.exit(worst > PROMISE)


if __name__ == "__main__":
    main()
