"""The copy helper of the Mesa topic aligned-access: every access to the mapped side is naturally aligned.

What it does to real Device memory is the lab's to show (bringup-tests/); here the addresses that its C code
uses are watched, and its machine code is read for what an emulator does not fault on (DC ZVA, vector
registers at a multiple of 8) and for what a compiler might have made of it (pairs, calls of memcpy).
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

PATCH = Path(__file__).parents[2] / "patches/mesa/aligned-access/0001-util-device-memory.patch"

# Prepended to the helper: each access to the mapped side is told to the test.
WATCH = """
#include <stddef.h>
extern void (*watch)(const void *address, size_t size);
#define MAPPED_ACCESS(p, size) watch(p, size)
#define UTIL_DEVICE_MEMORY_ANY_ARCH
"""
WATCHED = "#include <stddef.h>\nvoid (*watch)(const void *address, size_t size);\n"

GUARD = 0xA5
ROOM = 256  # guard bytes on each side


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with u_device_memory.[ch] as the patch makes them."""
    tree = tmp_path_factory.mktemp("mesa")
    subprocess.run(["git", "apply", "--include=src/util/u_device_memory.*", PATCH], cwd=tree, check=True)
    return tree / "src/util"


class Helper:
    """The helper as a shared library, and the accesses of its last call as (address, size)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.accesses: list[tuple[int, int]] = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
        self._watch = kind(lambda address, size: self.accesses.append((address, size)))
        ctypes.c_void_p.in_dll(library, "watch").value = ctypes.cast(self._watch, ctypes.c_void_p).value
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name in ("copy_to", "copy_from", "move", "bounce_end"):
            getattr(library, f"util_device_{name}").argtypes = [pointer, pointer, size]
        library.util_device_fill.argtypes = [pointer, ctypes.c_int, size]
        library.util_device_bounce_begin.argtypes = [pointer, size, ctypes.c_bool]
        library.util_device_bounce_begin.restype = pointer

    def call(self, name: str, *arguments: object) -> None:
        self.accesses.clear()
        getattr(self.library, f"util_device_{name}")(*arguments)


@pytest.fixture(scope="module")
def helper(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Helper:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler on this machine")
    built = tmp_path_factory.mktemp("helper")
    (built / "watch.h").write_text(WATCH)
    (built / "watch.c").write_text(WATCHED)
    library = built / "helper.so"
    strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    shared = ["-shared", "-fPIC", f"-I{sources}", "-include", "watch.h", "-o", str(library)]
    command = [compiler, *strict, *shared, str(sources / "u_device_memory.c"), "watch.c"]
    subprocess.run(command, cwd=built, check=True)
    return Helper(ctypes.CDLL(str(library)))


class Memory:
    """Bytes at a chosen address modulo 64, with guard bytes around them."""

    def __init__(self, offset: int, content: bytes) -> None:
        self.size = len(content)
        self._buffer = ctypes.create_string_buffer(bytes([GUARD]) * (2 * ROOM + 64 + self.size))
        start = ctypes.addressof(self._buffer) + ROOM
        self.address = start + (offset - start) % 64
        ctypes.memmove(self.address, content, self.size)

    @property
    def content(self) -> bytes:
        return ctypes.string_at(self.address, self.size)

    def guards_are_whole(self) -> bool:
        before, behind = self.address - ROOM, self.address + self.size
        return set(ctypes.string_at(before, ROOM) + ctypes.string_at(behind, ROOM)) == {GUARD}


def assert_aligned(accesses: list[tuple[int, int]], memory: Memory) -> None:
    """Each access at a multiple of its size, and together every byte of `memory` exactly once."""
    touched = [0] * memory.size
    for address, size in accesses:
        assert address % size == 0, f"{size} bytes at {address:#x}"
        for at in range(address - memory.address, address - memory.address + size):
            assert 0 <= at < memory.size
            touched[at] += 1
    assert set(touched) <= {1}


offsets = st.integers(0, 63)
contents = st.binary(max_size=300)


@given(contents, offsets, offsets)
def test_a_copy_into_a_mapping_writes_every_byte_once_and_aligned(
    helper: Helper, content: bytes, to: int, origin: int
) -> None:
    mapped, source = Memory(to, bytes(len(content))), Memory(origin, content)
    helper.call("copy_to", mapped.address, source.address, len(content))
    assert mapped.content == content
    assert mapped.guards_are_whole()
    assert_aligned(helper.accesses, mapped)


@given(contents, offsets, offsets)
def test_a_copy_out_of_a_mapping_reads_every_byte_once_and_aligned(
    helper: Helper, content: bytes, to: int, origin: int
) -> None:
    target, mapped = Memory(to, bytes(len(content))), Memory(origin, content)
    helper.call("copy_from", target.address, mapped.address, len(content))
    assert target.content == content
    assert target.guards_are_whole()
    assert_aligned(helper.accesses, mapped)


@given(st.integers(0, 300), st.integers(0, 255), offsets)
def test_a_fill_writes_every_byte_once_and_aligned(helper: Helper, size: int, byte: int, to: int) -> None:
    mapped = Memory(to, bytes(size))
    helper.call("fill", mapped.address, byte, size)
    assert mapped.content == bytes([byte]) * size
    assert mapped.guards_are_whole()
    assert_aligned(helper.accesses, mapped)


@given(st.binary(min_size=1, max_size=5000), offsets, st.data())
def test_a_move_within_a_mapping_is_memmove_and_aligned(
    helper: Helper, content: bytes, offset: int, data: st.DataObject
) -> None:
    at, origin = (data.draw(st.integers(0, len(content) - 1)) for _ in range(2))
    size = len(content) - max(at, origin)
    mapped = Memory(offset, content)
    helper.call("move", mapped.address + at, mapped.address + origin, size)
    expected = bytearray(content)
    expected[at : at + size] = content[origin : origin + size]
    assert mapped.content == bytes(expected)
    assert mapped.guards_are_whole()
    assert all(address % width == 0 for address, width in helper.accesses)


@given(contents, offsets, st.booleans())
def test_a_bounce_keeps_the_address_modulo_64_and_brings_back_what_was_written(
    helper: Helper, content: bytes, offset: int, read: bool
) -> None:
    mapped = Memory(offset, content)
    bounce = helper.library.util_device_bounce_begin(mapped.address, len(content), read)
    assert bounce % 64 == mapped.address % 64
    if read:
        assert ctypes.string_at(bounce, len(content)) == content
    written = bytes(255 - byte for byte in content)
    ctypes.memmove(bounce, written, len(written))
    helper.call("bounce_end", mapped.address, bounce, len(written))
    assert mapped.content == written
    assert mapped.guards_are_whole()
    assert_aligned(helper.accesses, mapped)


def test_a_bounce_of_nothing_is_nothing(helper: Helper) -> None:
    assert helper.library.util_device_bounce_begin(None, 16, True) is None


def test_every_size_up_to_64_at_every_offset_up_to_16(helper: Helper) -> None:
    """What random draws might miss: the whole square of the heads and tails."""
    for size in range(65):
        content = bytes(range(1, size + 1))
        for to in range(17):
            mapped, source = Memory(to, bytes(size)), Memory(3, content)
            helper.call("copy_to", mapped.address, source.address, size)
            assert mapped.content == content
            assert_aligned(helper.accesses, mapped)


@pytest.mark.parametrize(
    ("asked", "expected"), [("on", True), ("off", False), ("auto", False), ("nonsense", False), (None, False)]
)
def test_the_environment_decides_and_a_kernel_without_the_parameter_means_off(
    helper: Helper, monkeypatch: pytest.MonkeyPatch, asked: str | None, expected: bool
) -> None:
    if asked is None:
        monkeypatch.delenv("MESA_DEVICE_MEMORY", raising=False)
    else:
        monkeypatch.setenv("MESA_DEVICE_MEMORY", asked)
    if asked in (None, "auto") and Path("/sys/module/ttm/parameters/device_memory").exists():
        pytest.skip("this machine's kernel has the parameter")
    helper.library.util_device_memory_init()
    assert ctypes.c_bool.in_dll(helper.library, "util_device_memory_on").value is expected


# The machine code


def cross_tools() -> Callable[[list[str], Path], str] | None:
    """Runs a command of the arm64 cross tools in a directory: the machine's own, or those of a tool root."""

    def output(command: list[str], work: Path) -> str:
        return subprocess.run(command, cwd=work, check=True, text=True, stdout=subprocess.PIPE).stdout

    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("aarch64-linux-gnu-objdump"):
        return output
    root = os.environ.get("BOARDWRIGHT_TEST_CROSS", "")
    if root and Path(root, "usr/bin/aarch64-linux-gnu-gcc").exists() and shutil.which("bwrap"):
        box = ["bwrap", "--ro-bind", root, "/", "--dev", "/dev", "--tmpfs", "/tmp"]
        box += ["--setenv", "PATH", "/usr/bin", "--chdir", "/mnt"]
        return lambda command, work: output([*box, "--bind", str(work), "/mnt", *command], work)
    return None


def instructions(listing: str) -> Iterator[tuple[str, str, str]]:
    """(function, mnemonic, operands) of an objdump listing."""
    function = ""
    for line in listing.splitlines():
        if start := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            function = start[1]
        elif parts := re.match(r"\s+[0-9a-f]+:\t[0-9a-f]{8} \t(\S+)(?:\t([^/]*))?", line):
            yield function, parts[1], (parts[2] or "").strip()


@pytest.fixture(scope="module", params=["-O2", "-O3", "-Os"])
def machine_code(
    request: pytest.FixtureRequest, sources: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, str, str]]:
    run = cross_tools()
    if not run:
        pytest.skip("no aarch64-linux-gnu-gcc here, nor in BOARDWRIGHT_TEST_CROSS")
    work = tmp_path_factory.mktemp("arm64")
    for name in ("u_device_memory.c", "u_device_memory.h"):
        shutil.copy(sources / name, work)
    run(["aarch64-linux-gnu-gcc", "-std=gnu11", request.param, "-c", "u_device_memory.c"], work)
    code = list(instructions(run(["aarch64-linux-gnu-objdump", "-d", "u_device_memory.o"], work)))
    functions = {entry[0] for entry in code}
    assert {"util_device_copy_to", "util_device_copy_from", "util_device_fill"} <= functions
    return code


def test_no_instruction_zeroes_a_cache_line(machine_code: list[tuple[str, str, str]]) -> None:
    assert not [entry for entry in machine_code if entry[1] == "dc"]


def test_nothing_calls_a_copy_of_libc(machine_code: list[tuple[str, str, str]]) -> None:
    called = {operands for _, mnemonic, operands in machine_code if mnemonic in ("bl", "b")}
    assert not [name for name in called if re.search(r"\b(mem(cpy|move|set)|bcopy|bzero)\b", name)]


def test_vector_registers_are_used_for_the_sixteens_only(machine_code: list[tuple[str, str, str]]) -> None:
    """In the copies the only ones are the two of store16 and load16, at the very address (no offset)."""
    for function, mnemonic, operands in machine_code:
        if re.search(r"\b[qv]\d+", operands) and "sp" not in operands:
            found = f"{mnemonic} {operands}"
            assert re.fullmatch(r"(ldr|str) q16, \[x\d+\]", found), f"{function}: {found}"


def test_pairs_are_for_the_stack_only(machine_code: list[tuple[str, str, str]]) -> None:
    for function, mnemonic, operands in machine_code:
        if mnemonic in ("ldp", "stp", "ldnp", "stnp"):
            assert "[sp" in operands, f"{function}: {mnemonic} {operands}"
