"""`invoke build` with nothing to do against the bare start of `invoke --list`, in the same run.

Prints the minimum, median and maximum of each in seconds, the ratio of the medians, and the tool's peak
memory. The board must have been built. Example: python benchmarks/no_op.py --variant quick
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def timed(command: list[str]) -> tuple[float, float]:
    """Wall seconds of a command, and its peak resident memory in MiB. Raises on a non-zero status."""
    since = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - since
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--board", default="rock5b")
    parser.add_argument("--variant", default="")
    parser.add_argument("--runs", type=int, default=15)
    asked = parser.parse_args()
    invoke = [sys.executable, "-m", "invoke"]
    build = [
        *invoke,
        "build",
        "--board",
        asked.board,
        *(["--variant", asked.variant] if asked.variant else []),
    ]
    commands = {"invoke --list": [*invoke, "--list"], "invoke build (nothing to do)": build}
    for command in commands.values():
        timed(command)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    peak = 0.0
    for _ in range(asked.runs):
        for name, command in commands.items():
            took, memory = timed(command)
            seconds[name].append(took)
            peak = max(peak, memory)
    for name, row in seconds.items():
        print(f"{name:30} {min(row):.3f} {statistics.median(row):.3f} {max(row):.3f} s")
    bare, no_op = (statistics.median(row) for row in seconds.values())
    print(f"ratio {no_op / bare:.2f}, peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
