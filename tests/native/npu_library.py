"""libnpu-matmul by ctypes, and products by NumPy to compare with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FP16_FP32, FP16_FP16, INT8_INT32 = range(3)
IN = {FP16_FP32: np.float16, FP16_FP16: np.float16, INT8_INT32: np.int8}
OUT = {FP16_FP32: np.float32, FP16_FP16: np.float16, INT8_INT32: np.int32}


class Why(ctypes.Structure):
    _fields_ = [("text", c_char * 256)]


class Switches(ctypes.Structure):
    _fields_ = [
        *((name, c_int) for name in ("rows", "rdma", "int8_banks", "mrdma")),
        ("grains", c_uint),
        ("int8_qd", c_bool),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("backend", c_char_p),
        ("node", c_char_p),
        ("threads", c_uint),
        ("timeout_ms", c_uint),
        ("switches", Switches),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("matrix", c_void_p),
        ("m", c_size_t),
        ("a", c_void_p),
        ("lda", c_size_t),
        ("c", c_void_p),
        ("ldc", c_size_t),
    ]


class Counters(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("submissions", "lists", "bytes_synced", "padded_rows")),
        ("busy_seconds", c_double),
    ]


class NpuError(Exception):
    pass


def load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.nm_open.argtypes = [POINTER(Options), POINTER(c_void_p), POINTER(Why)]
    library.nm_close.argtypes = [c_void_p]
    size, matrix = c_size_t, POINTER(c_void_p)
    library.nm_matrix_create.argtypes = [c_void_p, c_int, size, size, c_void_p, size, matrix, POINTER(Why)]
    library.nm_matrix_destroy.argtypes = [c_void_p]
    library.nm_multiply_all.argtypes = [POINTER(Request), c_size_t, POINTER(Why)]
    library.nm_counters.argtypes = [c_void_p, POINTER(Counters)]
    library.nm_half_from_float.argtypes = library.nm_float_from_half.argtypes = [c_void_p, c_void_p, c_size_t]
    return library


@dataclass
class Device:
    library: ctypes.CDLL
    backend: str
    switches: dict[str, int] = field(default_factory=dict)
    threads: int = 2

    def __post_init__(self) -> None:
        self.why, self.handle = Why(), c_void_p()
        options = Options(self.backend.encode(), None, self.threads, 0, Switches(**self.switches))
        self._check(self.library.nm_open(byref(options), byref(self.handle), byref(self.why)))

    def close(self) -> None:
        self.library.nm_close(self.handle)

    def _check(self, status: int) -> None:
        if status:
            raise NpuError(f"{status}: {self.why.text.decode()}")

    def counters(self) -> Counters:
        counters = Counters()
        self.library.nm_counters(self.handle, byref(counters))
        return counters

    def products(self, kind: int, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """A·Bᵀ of each pair, in one call; rows of C begin one element further apart than they are long."""
        requests = (Request * len(pairs))()
        results = []
        for request, (a, b) in zip(requests, pairs, strict=True):
            matrix = c_void_p()
            (m, k), n = a.shape, b.shape[0]
            created = self.library.nm_matrix_create(
                self.handle, kind, n, k, b.ctypes.data, k, byref(matrix), byref(self.why)
            )
            self._check(created)
            c = np.full((m, n + 1), 77, OUT[kind])
            results.append(c)
            request.matrix, request.m, request.a, request.lda = matrix.value, m, a.ctypes.data, k
            request.c, request.ldc = c.ctypes.data, n + 1
        status = self.library.nm_multiply_all(requests, len(pairs), byref(self.why))
        for request in requests:
            self.library.nm_matrix_destroy(request.matrix)
        self._check(status)
        assert all((c[:, -1] == 77).all() for c in results), "written past the end of a row"
        return [c[:, :-1] for c in results]


def operands(kind: int, m: int, k: int, n: int, seed: int, fractions: bool = False) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    if kind == INT8_INT32:
        a, b = random.integers(-128, 128, (m, k)), random.integers(-128, 128, (n, k))
    elif fractions:
        a, b = random.normal(size=(m, k)), random.normal(size=(n, k))
    else:
        most = 1 if kind == FP16_FP16 else 9
        a, b = random.integers(-most, most + 1, (m, k)), random.integers(-most, most + 1, (n, k))
    return np.ascontiguousarray(a, IN[kind]), np.ascontiguousarray(b, IN[kind])


def exact(kind: int, a: Any, b: Any) -> Any:
    """The result of operands that are integers."""
    return (a.astype(np.int64) @ b.astype(np.int64).T).astype(OUT[kind])
