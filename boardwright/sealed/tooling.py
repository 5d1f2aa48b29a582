"""How the image step runs its tools: to the end, quiet when all is well, in clear words when not."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence


class Fault(Exception):
    """Why the image cannot be made or is not what was asked for; ends the step."""


def run(command: Sequence[str], *, given: str = "", expected: tuple[int, ...] = (0,)) -> str:
    """What a tool prints (standard error last). Raises Fault with that text when it ends otherwise."""
    return finish(start(command), given=given, expected=expected)


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """A tool beside us; :func:`finish` waits for it."""
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str], *, given: str = "", expected: tuple[int, ...] = (0,)) -> str:
    said, _ = process.communicate(given)
    if process.returncode not in expected:
        raise Fault(
            f"`{shlex.join(map(str, process.args))}` ended with {process.returncode}:\n{said.strip()}"  # type: ignore[arg-type]
        )
    return said


def size(count: int) -> str:
    """Bytes as MiB, rounded up."""
    return f"{-(-count // 2**20):,} MiB"
