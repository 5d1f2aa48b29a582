"""Token rates of `llama-run` beside llama.cpp's `llama-bench`, on one machine in one run.

    pip install gguf numpy
    python benchmarks/llama_cpp.py --llama-run build/llama-runner/llama-run --llama-bench "llama-bench"

llama.cpp is the user's (Debian has it in unstable); `--llama-bench` may be several words, such as a chroot's.
The checkpoints are synthetic, and the same numbers stand in the GGUF files that llama.cpp gets: fp32 as F32,
int8 as Q8_0 (groups of 32 with a scale in binary16, where llama2.c has 64 and fp32). Programs take turns;
figures are medians, a ratio is the median of each round's ratio. llama.cpp keeps its cache in binary16 by
default, and is left at that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def convert(checkpoint: Path, out: Path, kind: gguf.GGMLQuantizationType) -> None:
    """A checkpoint of version 0 with a shared classifier as GGUF, read in the order of run.c."""
    data = np.fromfile(checkpoint, dtype="<f4")
    dim, hidden, layers, heads, kv_heads, vocab, sequence = struct.unpack("<7i", data[:7].tobytes())
    if vocab < 0:
        sys.exit(f"{checkpoint}: expected a shared classifier")
    kv, at = dim // heads * kv_heads, 7
    tensors: dict[str, np.ndarray] = {}
    for name, shape in (
        ("token_embd", (vocab, dim)),
        ("attn_norm", (layers, dim)),
        ("attn_q", (layers, dim, dim)),
        ("attn_k", (layers, kv, dim)),
        ("attn_v", (layers, kv, dim)),
        ("attn_output", (layers, dim, dim)),
        ("ffn_norm", (layers, dim)),
        ("ffn_gate", (layers, hidden, dim)),
        ("ffn_down", (layers, dim, hidden)),
        ("ffn_up", (layers, hidden, dim)),
        ("output_norm", (dim,)),
    ):
        size = int(np.prod(shape))
        tensors[name] = data[at : at + size].reshape(shape)
        at += size
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(sequence)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(dim // heads)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("no_vocab")

    def add(name: str, values: np.ndarray) -> None:
        if values.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    for name, values in tensors.items():
        if name in ("token_embd", "output_norm"):
            add(f"{name}.weight", values)
            continue
        for layer in range(layers):
            add(f"blk.{layer}.{name}.weight", values[layer])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ours(program: Path, checkpoint: Path, steps: int, threads: int) -> float:
    command = [str(program), str(checkpoint), "-t", "0", "-n", str(steps), "--threads", str(threads)]
    command += ["-z", str(checkpoint.parent / "tokenizer.bin"), "--backend", "cpu"]
    done = subprocess.run(command, capture_output=True, check=False)
    found = re.search(rb"achieved tok/s: ([0-9.]+)", done.stderr + done.stdout)
    if done.returncode or not found:
        sys.exit(f"{shlex.join(command)}: {done.returncode}: {done.stderr.decode(errors='replace')}")
    return float(found[1])


def theirs(program: list[str], model: str, steps: int, threads: int) -> float:
    command = [
        *program,
        "-m",
        model,
        "-t",
        str(threads),
        "-p",
        "0",
        "-n",
        str(steps),
        "-r",
        "1",
        "-o",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: {done.returncode}: {done.stderr.decode(errors='replace')}")
    return float(json.loads(done.stdout)[0]["avg_ts"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama-run", type=Path, required=True)
    parser.add_argument("--llama-bench", type=shlex.split, required=True, help="the command, in words")
    parser.add_argument(
        "--root", type=Path, help="the chroot that --llama-bench enters; checkpoints lie in its /tmp"
    )
    parser.add_argument("--sizes", default="15M,42M,110M")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.root / "tmp" if options.root else None) as scratch:
        work = Path(scratch)
        print(f"tok/s, medians of {options.rounds} runs of {options.steps} tokens")
        print(f"{'':24}{'llama-run':>12}{'llama.cpp':>12}{'ratio':>8}", flush=True)
        for size in options.sizes.split(","):
            for form, kind, extra in (
                ("fp32", gguf.GGMLQuantizationType.F32, []),
                ("int8", gguf.GGMLQuantizationType.Q8_0, ["--int8"]),
            ):
                plain, model = work / f"{size}.bin", work / f"{size}-{form}.gguf"
                checkpoint = work / f"{size}-{form}.bin" if extra else plain
                tool = [
                    sys.executable,
                    str(ROOT / "tools/synthetic-checkpoint"),
                    str(checkpoint),
                    "--size",
                    size,
                ]
                subprocess.run([*tool, "--tokenizer", str(work / "tokenizer.bin"), *extra], check=True)
                convert(plain, model, kind)
                inside = f"/{model.relative_to(options.root)}" if options.root else str(model)
                for threads in sorted({1, os.cpu_count() or 1}):
                    pairs = []
                    for turn in range(options.rounds):
                        runs = [
                            lambda: ours(options.llama_run, checkpoint, options.steps, threads),  # noqa: B023
                            lambda: theirs(options.llama_bench, inside, options.steps, threads),  # noqa: B023
                        ]
                        order = (0, 1) if turn % 2 else (1, 0)
                        rates = {which: runs[which]() for which in order}
                        pairs.append((rates[0], rates[1]))
                    one, other = (statistics.median(pair[which] for pair in pairs) for which in (0, 1))
                    ratio = statistics.median(a / b for a, b in pairs)
                    what = f"{size} {form}, {threads} thread{'s'[: threads > 1]}"
                    print(f"{what:24}{one:12.1f}{other:12.1f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
