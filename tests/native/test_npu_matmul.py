"""libnpu-matmul and its program, built by meson in the sealed environment, against NumPy."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from npu_library import (
    FP16_FP16,
    FP16_FP32,
    INT8_INT32,
    Device,
    NpuError,
    exact,
    load,
    operands,
)
from sealed_builds import ROOT, Lab, sealed

SWITCHES: list[dict[str, int]] = [
    {},
    {"rows": 1},
    {"rdma": 2},
    {"int8_banks": 1, "int8_qd": 1},
    {"grains": 33},
]
SUITE = "meson test -C build --suite core --print-errorlogs >log 2>&1 || { cat log; exit 1; }; cat log"


@pytest.fixture(scope="session")
def build(x86_lab: Lab) -> Path:
    return x86_lab.out


@pytest.fixture(scope="session")
def library(build: Path) -> ctypes.CDLL:
    return load(build / "build/npu-matmul/libnpu-matmul.so")


@pytest.fixture(params=["model", "cpu"])
def device(library: ctypes.CDLL, request: pytest.FixtureRequest) -> Iterator[Device]:
    opened = Device(library, request.param)
    yield opened
    opened.close()


# The suite of the project itself


def passed(done: subprocess.CompletedProcess[str], least: int) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {
        line.split(":")[0]: int(line.split(":")[1])
        for line in done.stdout.splitlines()
        if line[:3] in ("Ok:", "Ski")
    }
    assert counts["Ok"] >= least
    assert counts["Skipped"] == 0


def test_the_suite(build: Path) -> None:
    passed(sealed(build, SUITE), 8)


@pytest.mark.parametrize(
    ("sanitizer", "tests", "least"),
    [
        ("address,undefined", "--suite core", 8),
        ("thread", "'npu-matmul products on cpu' 'npu-matmul errors'", 2),  # what has threads
    ],
)
def test_the_suite_under_sanitizers(tmp_path: Path, sanitizer: str, tests: str, least: int) -> None:
    flags = f"-Dllama-runner=false -Db_sanitize={sanitizer} -Db_lundef=false -Dbuildtype=debugoptimized"
    script = f"meson setup build /in/native {flags} >log; {SUITE.replace('--suite core', tests)}"
    passed(sealed(tmp_path, f"export UBSAN_OPTIONS=halt_on_error=1; {script}"), least)


def test_the_suite_on_arm64(arm64_lab: Lab) -> None:
    passed(sealed(arm64_lab.out, SUITE), 8)


def test_what_the_shared_library_shows(build: Path) -> None:
    done = sealed(
        build,
        "cd build/npu-matmul; nm -D --defined-only libnpu-matmul.so; readelf -d libnpu-matmul.so",
    )
    names = {line.split()[-1] for line in done.stdout.splitlines() if " T " in line}
    header = (ROOT / "native/npu-matmul/include/npu-matmul.h").read_text()
    assert names == {name for name in names if f"{name}(" in header}
    assert {"nm_open", "nm_multiply_all", "nm_version"} <= names
    assert "soname: [libnpu-matmul.so.0]" in done.stdout


# Against NumPy


@settings(max_examples=60)
@given(
    kind=st.sampled_from([FP16_FP32, FP16_FP16, INT8_INT32]),
    m=st.integers(1, 40),
    k=st.integers(1, 400),
    n=st.integers(1, 200),
    seed=st.integers(0, 2**32 - 1),
    switches=st.sampled_from(SWITCHES),
    backend=st.sampled_from(["model", "cpu"]),
)
def test_integers_are_exact(
    library: ctypes.CDLL, kind: int, m: int, k: int, n: int, seed: int, switches: dict[str, int], backend: str
) -> None:
    a, b = operands(kind, m, k, n, seed)
    opened = Device(library, backend, switches)
    (c,) = opened.products(kind, [(a, b)])
    opened.close()
    np.testing.assert_array_equal(c, exact(kind, a, b))


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 768, 2048), (384, 384, 200), (1, 64, 20000), (3, 40000, 33), (1100, 40, 20), (9, 16385, 31)],
    ids=lambda size: str(size),
)
@pytest.mark.parametrize("kind", [FP16_FP32, FP16_FP16, INT8_INT32])
def test_cut_sizes_are_exact(device: Device, kind: int, m: int, k: int, n: int) -> None:
    a, b = operands(kind, m, k, n, m + k + n)
    (c,) = device.products(kind, [(a, b)])
    np.testing.assert_array_equal(c, exact(kind, a, b))


@pytest.mark.parametrize("shape", [(1, 768, 768), (7, 2048, 96), (2, 20000, 64)])
def test_fractions_are_as_near_as_binary32_sums(device: Device, shape: tuple[int, int, int]) -> None:
    a, b = operands(FP16_FP32, *shape, seed=3, fractions=True)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T
    (c,) = device.products(FP16_FP32, [(a, b)])
    assert (np.abs(c - right) <= magnitude * shape[1] * 2.0**-24).all()
    (h,) = device.products(FP16_FP16, [(a, b)])
    assert (np.abs(h - right) <= magnitude * shape[1] * 2.0**-24 + np.abs(right) * 2.0**-11).all()


def test_too_large_for_fp16_is_infinity(device: Device) -> None:
    a, b = np.full((2, 64), 128, np.float16), np.full((16, 64), 128, np.float16)
    (c,) = device.products(FP16_FP16, [(a, -b)])
    assert (c == -np.inf).all()


def test_not_a_number_comes_through(device: Device) -> None:
    a, b = operands(FP16_FP32, 3, 64, 32, 1)
    a[1, 5] = np.nan
    for kind in (FP16_FP32, FP16_FP16):
        (c,) = device.products(kind, [(a, b)])
        assert np.isnan(c[1]).all()
        np.testing.assert_array_equal(c[[0, 2]], exact(kind, a[[0, 2]], b))


def test_several_products_are_one_submission(library: ctypes.CDLL) -> None:
    opened = Device(library, "model")
    pairs = [operands(FP16_FP32, 1, 288, n, n) for n in (288, 96, 96)]
    pairs = [(pairs[0][0], b) for _, b in pairs]
    for (a, b), c in zip(pairs, opened.products(FP16_FP32, pairs), strict=True):
        np.testing.assert_array_equal(c, exact(FP16_FP32, a, b))
    counters = opened.counters()
    assert (counters.submissions, counters.lists) == (1, 3)
    opened.close()


def test_int32_saturates(device: Device) -> None:
    a, b = np.full((1, 140000), -128, np.int8), np.full((2, 140000), -128, np.int8)
    b[1] = 127
    (c,) = device.products(INT8_INT32, [(a, b)])
    assert c.tolist() == [[2**31 - 1, -(2**31)]]


def test_halves_are_numpy_s(library: ctypes.CDLL) -> None:
    floats = np.random.default_rng(1).integers(0, 2**32, 100001, np.uint32).view(np.float32)
    floats = np.ascontiguousarray(floats[~np.isnan(floats)])
    halves = np.zeros(floats.size, np.uint16)
    library.nm_half_from_float(halves.ctypes.data, floats.ctypes.data, floats.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(halves, floats.astype(np.float16).view(np.uint16))


def test_a_bad_switch_is_refused(library: ctypes.CDLL) -> None:
    with pytest.raises(NpuError, match="grains is 5000"):
        Device(library, "model", {"grains": 5000})


# The program


@dataclass(frozen=True)
class Tool:
    program: Path

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        out = self.program
        return sealed(out, f"build/npu-matmul/npu-matmul {' '.join(words)}")


@pytest.fixture(scope="session")
def tool(build: Path) -> Tool:
    return Tool(build)


@pytest.mark.parametrize("backend", ["model", "cpu"])
def test_tool_test(tool: Tool, backend: str) -> None:
    done = tool("test", "--backend", backend, "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"npu-matmul: {len(lines) - 3} of {len(lines) - 3} products right on {backend}"
    assert (
        max(map(len, [*lines, *tool("list").stdout.splitlines(), *tool("--help").stdout.splitlines()])) <= 80
    )


def test_tool_json(tool: Tool) -> None:
    found = json.loads(
        tool("test", "--backend", "model", "--json", "--shape", "3x100x50", "--type", "int8-int32").stdout
    )
    assert (found["backend"], found["evidence"], found["right"], found["count"]) == (
        "model",
        "modelled",
        1,
        1,
    )
    listed = json.loads(tool("list", "--json").stdout)["backends"]
    assert {one["name"]: one["present"] for one in listed} == {
        "rocket": False,
        "rknpu": False,
        "axengine": False,
        "cpu": True,
        "model": True,
    }


def test_a_model_has_no_speed(tool: Tool) -> None:
    found = json.loads(tool("bench", "--backend", "model", "--json", "--shape", "1x288x32000").stdout)
    (shape,) = found["shapes"]
    assert shape["lists"] == 4
    assert not {"gflops", "median_seconds", "gigabytes_per_second"} & set(shape)
    shown = tool("bench", "--backend", "cpu", "--shape", "1x288x288", "--seconds", "0.01").stdout
    assert "evidence: host" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("frobnicate", 2, "no command 'frobnicate'"),
        ("", 2, "expected one command, found 0"),
        ("test --shape 3x4", 2, "--shape is '3x4': expected MxKxN"),
        ("test --rows three", 2, "--rows is 'three': expected given|padded"),
        ("test --grains 0", 2, "--grains is '0': expected a number from 1 to 1023"),
        ("test --backend gpu", 2, "no back end is called 'gpu'"),
        ("test --backend rocket", 3, "no node of driver rocket"),
        ("test --backend model --rdma on --mrdma zero --shape 1x32x32", 3, "MRDMA"),
    ],
)
def test_tool_refuses(tool: Tool, words: str, status: int, text: str) -> None:
    done = tool(words)
    assert done.returncode == status
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("npu-matmul: error: ")]
    assert text in line
