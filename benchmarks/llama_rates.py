"""Token rates of `llama-run` beside llama2.c's own programs, on one machine in one run.

    python benchmarks/llama_rates.py --llama2c ../llama2.c --llama-run build/llama-runner/llama-run

The source of llama2.c is the user's: run.c and runq.c are compiled as its README recommends for speed (-Ofast
-march=native, and -fopenmp for more threads). Checkpoints are synthetic (tools/synthetic-checkpoint): a rate
depends on shapes. Programs take turns, so that another load on the machine meets all alike; the figure is the
median, and a ratio is the median of each round's ratio. GB/s are the weights that llama-run reads; beside it
what as many threads read that do nothing else (memory_read.c), the wall for every program.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Program:
    name: str
    command: list[str]
    threads: int
    rates: list[float] = field(default_factory=list)

    def run(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        done = subprocess.run(self.command, capture_output=True, env=environment, check=False)
        found = re.search(rb"achieved tok/s: ([0-9.]+)", done.stderr + done.stdout)
        if done.returncode or not found:
            sys.exit(f"{' '.join(self.command)}: {done.returncode}: {done.stderr.decode(errors='replace')}")
        self.rates.append(float(found.group(1)))


def compile_theirs(source: Path, work: Path) -> dict[str, Path]:
    """run and runq, each with and without OpenMP."""
    compiler = os.environ.get("CC", "gcc")
    result = {}
    for name in ("run", "runq"):
        for suffix, flags in (("", []), ("-omp", ["-fopenmp"])):
            out = work / f"{name}{suffix}"
            subprocess.run(
                [
                    compiler,
                    "-Ofast",
                    "-march=native",
                    "-w",
                    *flags,
                    str(source / f"{name}.c"),
                    "-o",
                    str(out),
                    "-lm",
                ],
                check=True,
            )
            result[name + suffix] = out
    return result


def memory_rate(work: Path, threads: int, size: int) -> float:
    """GB/s at which ``threads`` threads read ``size`` bytes again and again."""
    program = work / "memory_read"
    if not program.exists():
        source = str(ROOT / "benchmarks/memory_read.c")
        compiler = os.environ.get("CC", "gcc")
        subprocess.run([compiler, "-O3", "-march=native", "-pthread", source, "-o", str(program)], check=True)
    megabytes = max(size // 1_000_000, 16 * threads)
    done = subprocess.run([program, str(threads), str(megabytes)], capture_output=True, check=True)
    return float(done.stdout)


def pairs_of(
    checkpoints: Path, size: str, steps: int, ours: Path, theirs: dict[str, Path]
) -> list[tuple[str, Program, Program]]:
    """(what, ours, theirs) for one size."""
    result = []
    for form, suffix in (("fp32", ""), ("int8", "-int8")):
        path = str(checkpoints / f"{size}{suffix}.bin")
        tokenizer = str(checkpoints / "tokenizer.bin")
        for threads in (1, os.cpu_count() or 1):
            program = theirs[("run" if form == "fp32" else "runq") + ("" if threads == 1 else "-omp")]
            options = ["-t", "0", "-n", str(steps), "-z", tokenizer]
            our_options = [*options, "--threads", str(threads), "--backend", "cpu"]
            result.append(
                (
                    f"{size} {form}, {threads} thread{'s'[: threads > 1]}",
                    Program("llama-run", [str(ours), path, *our_options], threads),
                    Program(program.name, [str(program), path, *options], threads),
                )
            )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama2c", type=Path, required=True, help="a directory with run.c and runq.c")
    parser.add_argument("--llama-run", type=Path, required=True)
    parser.add_argument("--sizes", default="15M,42M,110M")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--checkpoints", type=Path, help="keep the synthetic checkpoints here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        checkpoints = options.checkpoints or work
        checkpoints.mkdir(parents=True, exist_ok=True)
        theirs = compile_theirs(options.llama2c, work)
        print(f"tok/s, medians of {options.rounds} runs of {options.steps} tokens")
        print(f"{'':24}{'llama-run':>12}{'llama2.c':>12}{'ratio':>8}{'GB/s':>8}{'of':>6}")
        for size in options.sizes.split(","):
            for suffix, extra in (("", []), ("-int8", ["--int8"])):
                path = checkpoints / f"{size}{suffix}.bin"
                if not path.exists():
                    tool = [
                        sys.executable,
                        str(ROOT / "tools/synthetic-checkpoint"),
                        str(path),
                        "--size",
                        size,
                    ]
                    subprocess.run(
                        [*tool, "--tokenizer", str(checkpoints / "tokenizer.bin"), *extra], check=True
                    )
            pairs = pairs_of(checkpoints, size, options.steps, options.llama_run, theirs)
            for turn in range(options.rounds):
                for _, one, other in pairs:
                    for program in (one, other) if turn % 2 else (other, one):
                        program.run()
            for what, one, other in pairs:
                ratio = statistics.median(a / b for a, b in zip(one.rates, other.rates, strict=True))
                rate = statistics.median(one.rates)
                weights = Path(one.command[1]).stat().st_size
                wall = memory_rate(work, one.threads, weights)
                theirs_rate = statistics.median(other.rates)
                figures = f"{rate:12.1f}{theirs_rate:12.1f}{ratio:8.2f}{rate * weights / 1e9:8.1f}{wall:6.1f}"
                print(f"{what:24}{figures}", flush=True)


if __name__ == "__main__":
    main()
