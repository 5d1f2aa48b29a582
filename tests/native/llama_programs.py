"""`llama-run`, built in the sealed environment by the project's own meson file, and its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from boardwright.build.sandbox import Seal, argv

ROOT = Path(__file__).resolve().parents[2]
CROSS_FILE = """
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def environment() -> Path:
    """The environment tools-mesa; skips without it."""
    root = os.environ.get("BOARDWRIGHT_TEST_CROSS", "")
    if not root or not (Path(root) / "usr/bin/aarch64-linux-gnu-gcc").exists():
        pytest.skip("BOARDWRIGHT_TEST_CROSS names no environment with aarch64-linux-gnu-gcc")
    return Path(root)


def build(out: Path, *options: str, arm64: bool = False) -> Path:
    """The program, static, so that it runs on any host and under qemu-user."""
    out.mkdir(parents=True)
    (out / "cross.txt").write_text(CROSS_FILE)
    seal = Seal(
        root=environment(),
        read_only={"/in/native": ROOT / "native"},
        writable={"/out": out},
        directory="/out",
    )
    flags = ["--cross-file", "cross.txt"] if arm64 else []
    setup = ["meson", "setup", "build", "/in/native", "-Dtests=false", *flags, *options]
    make = ["ninja", "-C", "build", "llama-runner/llama-run"]
    script = " ".join(setup) + " >log 2>&1 && " + " ".join(make) + " >>log 2>&1 || { cat log; exit 1; }"
    done = subprocess.run(argv(seal, ["bash", "-euc", script]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "build/llama-runner/llama-run"


@dataclass(frozen=True)
class Program:
    """How one build is run."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        line = [*self.command, *map(str, arguments)]
        return subprocess.run(
            line,
            capture_output=True,
            text=True,
            input=stdin,
            check=False,
            timeout=300,
            env={"PATH": os.environ["PATH"], **self.variables},
        )

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        done = self.run(*arguments, "--json", "-")
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report


def qemu() -> str:
    found = shutil.which("qemu-aarch64-static")
    if not found:
        pytest.skip("needs qemu-user-static")
    return found


@cache
def _tool() -> list[str]:
    return [sys.executable, str(ROOT / "tools/synthetic-checkpoint")]


@dataclass(frozen=True)
class Files:
    checkpoint: Path
    tokenizer: Path


def synthetic(where: Path, shape: str, *extra: str) -> Files:
    """A checkpoint and a tokenizer for it."""
    name = "-".join([shape.replace(",", "."), *(word.strip("-") for word in extra)])
    files = Files(where / f"{name}.bin", where / f"{name}.tokenizer")
    if not files.checkpoint.exists():
        command = [
            *_tool(),
            str(files.checkpoint),
            "--shape",
            shape,
            "--tokenizer",
            str(files.tokenizer),
            *extra,
        ]
        subprocess.run(command, check=True)
    return files
