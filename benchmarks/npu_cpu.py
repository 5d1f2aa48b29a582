"""The cpu back end of libnpu-matmul against NumPy's BLAS, on this machine, side by side.

    python benchmarks/npu_cpu.py --library build/npu-matmul/libnpu-matmul.so [--threads 1] [--rounds 15]

Ratios of medians, ours to theirs; below 1 ours is faster. Each round measures both, one after the other, so
that what else the machine does falls on both. BLAS multiplies binary32, both operands as they lie; ours has
fp16 operands, B packed once, and sums in binary32: half the bytes, and a conversion more. int8 is measured
against the same BLAS product, since NumPy has none for int8. Reported, no limit.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

SHAPES = [
    (1, 768, 768),
    (1, 768, 2048),
    (1, 2048, 768),
    (1, 768, 32000),
    (8, 768, 2048),
    (64, 768, 2048),
    (512, 512, 512),
    (1024, 1024, 1024),
]
"""M, K, N."""


def seconds(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(asked.threads)

    sys.path.insert(0, str(Path(__file__).parents[1]))
    import numpy as np

    from tests.native.npu_library import FP16_FP32, INT8_INT32, Device, Request, load, operands

    device = Device(load(asked.library), "cpu", threads=asked.threads)

    def ours(kind: int, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        matrix = ctypes.c_void_p()
        (m, k), n = a.shape, b.shape[0]
        device.library.nm_matrix_create(
            device.handle, kind, n, k, b.ctypes.data, k, ctypes.byref(matrix), ctypes.byref(device.why)
        )
        request = Request(matrix.value, m, a.ctypes.data, k, c.ctypes.data, n)
        multiply, why = device.library.nm_multiply_all, ctypes.byref(device.why)
        return matrix, lambda: multiply(ctypes.byref(request), 1, why)

    print(f"{asked.threads} threads; medians of {asked.rounds} rounds, ms; GFLOPS of ours")
    heads = f"{'fp16':>8} {'ratio':>6} {'GFLOPS':>7} {'int8':>8} {'ratio':>6} {'GOPS':>7}"
    print(f"{'MxKxN':>16} {'BLAS fp32':>10} {heads}")
    for m, k, n in SHAPES:
        a, b = operands(FP16_FP32, m, k, n, 1, fractions=True)
        a8, b8 = operands(INT8_INT32, m, k, n, 1)
        c, c8, c32 = (np.empty((m, n), kind) for kind in (np.float32, np.int32, np.float32))
        a32, b32 = a.astype(np.float32), b.astype(np.float32)
        half, run_half = ours(FP16_FP32, a, b, c)
        byte, run_byte = ours(INT8_INT32, a8, b8, c8)
        calls = [lambda x=a32, y=b32, z=c32: np.matmul(x, y.T, out=z), run_half, run_byte]
        inner = max(1, round(2e6 / (m * k * n)))
        times: list[list[float]] = [[], [], []]
        for _ in range(asked.rounds + 1):
            for series, call in zip(times, calls, strict=True):
                series.append(seconds(lambda call=call, inner=inner: [call() for _ in range(inner)]) / inner)
        assert np.allclose(c, c32, rtol=1e-3, atol=1e-2 * np.sqrt(k)), "the two disagree"
        blas, fp16, int8 = (statistics.median(series[1:]) for series in times)
        flops = 2e-9 * m * k * n
        print(f"{f'{m}x{k}x{n}':>16} {blas * 1e3:>10.3f}", end="")
        for spent in (fp16, int8):
            print(f" {spent * 1e3:>8.3f} {spent / blas:>6.2f} {flops / spent:>7.1f}", end="")
        print(flush=True)
        for matrix in (half, byte):
            device.library.nm_matrix_destroy(matrix)
    device.close()


if __name__ == "__main__":
    main()
