"""`llama-run`, built in the sealed environment by the project's own meson file, and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sealed_builds
from sealed_builds import ARM64, ROOT


def build(out: Path, *options: str, arm64: bool = False) -> Path:
    """The program alone; the tests run it on this host and under qemu-user."""
    out.mkdir(parents=True)
    flags = [ARM64] if arm64 else []
    sealed_builds.build(out, "-Dtests=false", *flags, *options, targets="llama-runner/llama-run")
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
