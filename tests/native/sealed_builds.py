"""The project `native/`, built and run in the sealed environment, for x86 and for arm64 under qemu-user."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from boardwright.build.sandbox import Seal, argv

ROOT = Path(__file__).resolve().parents[2]
ARM64 = "--cross-file /in/native/arm64.ini"
EMULATOR = ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu")
"""How an arm64 program is run inside, where its C library is the cross compiler's."""


def environment() -> Path:
    """The environment tools-mesa; skips without it."""
    root = os.environ.get("BOARDWRIGHT_TEST_CROSS", "")
    if not root or not (Path(root) / "usr/bin/aarch64-linux-gnu-gcc").exists():
        pytest.skip("BOARDWRIGHT_TEST_CROSS names no environment with aarch64-linux-gnu-gcc")
    return Path(root)


def qemu() -> str:
    found = shutil.which("qemu-aarch64-static")
    if not found:
        pytest.skip("needs qemu-user-static")
    return found


def sealed(out: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run ``script`` in the environment, in ``/out``; the project is ``/in/native``."""
    seal = Seal(
        root=environment(),
        read_only={"/in/native": ROOT / "native", f"/in/bin/{EMULATOR[0]}": Path(qemu())},
        writable={"/out": out},
        directory="/out",
    )
    command = ["bash", "-euc", f"export PATH=/in/bin:$PATH; {script}"]
    return subprocess.run(argv(seal, command), capture_output=True, text=True, check=False)


def build(out: Path, *flags: str, targets: str = "") -> None:
    """Configure ``out/build`` with ``flags`` of meson, and make ``targets`` (default: all)."""
    setup = f"meson setup build /in/native {' '.join(flags)}"
    done = sealed(out, f"{{ {setup} && ninja -C build {targets}; }} >log 2>&1 || {{ cat log; exit 1; }}")
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Lab:
    """A whole build in ``out/build``, and how its programs are run: inside, arm64 by qemu-user."""

    out: Path
    emulator: tuple[str, ...]

    def shell(self, script: str, *, bad: int = 0) -> str:
        done = sealed(self.out, script)
        assert done.returncode == bad, done.stdout + done.stderr
        return done.stdout + done.stderr

    def line(self, program: str, words: str, **variables: str) -> str:
        """A command line that runs `program` of the build with these variables."""
        if self.emulator:
            given = " ".join(f"-E {name}={value}" for name, value in variables.items())
            return f"{' '.join(self.emulator)} {given} build/{program} {words}"
        return " ".join(f"{name}={value}" for name, value in variables.items()) + f" build/{program} {words}"

    def fake(self, node: str, faults: str = "") -> dict[str, str]:
        preload = "/out/build/npu-matmul/tests/fake/libfake-npu-preload.so"
        return {"LD_PRELOAD": preload, "FAKE_NPU": node, "FAKE_NPU_FAULTS": faults, "FAKE_NPU_REPORT": "1"}
