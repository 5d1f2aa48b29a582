"""git, as a program: the one place where `patch edit` and `patch refresh` run it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from boardwright.errors import HostError, ProductError

_PLAIN = ("-c", "core.quotePath=false", "-c", "advice.detachedHead=false", "-c", "merge.renames=false")


def _environment() -> dict[str, str]:
    """The user's own, for the identity of commits, without what would point git at another repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "LC_ALL": "C.UTF-8",
        "GIT_EDITOR": "true",
    }


def run(directory: Path, *words: str, fine: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
    """``git words…`` in ``directory``. Raises ``ProductError`` when it ends otherwise than ``fine``."""
    require()
    done = subprocess.run(
        ["git", *_PLAIN, *words],
        cwd=directory,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode not in fine:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise ProductError(f"`git {words[0]}` failed in {directory}: {said or done.returncode}")
    return done


def text(directory: Path, *words: str) -> str:
    """What ``git words…`` prints, without the last line feed; '' when it fails."""
    done = run(directory, *words, fine=tuple(range(256)))
    output = done.stdout.decode("utf-8", errors="surrogateescape").rstrip("\n")
    return output if done.returncode == 0 else ""


def fast_import(directory: Path, chunks: Iterable[bytes]) -> None:
    """Feed ``git fast-import``. Raises ``ProductError`` with what it said when it refuses."""
    require()
    command = [
        "git",
        "-c",
        "pack.compression=1",
        "-c",
        "core.compression=1",
        "fast-import",
        "--done",
        "--quiet",
    ]
    with subprocess.Popen(
        command, cwd=directory, env=_environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            for chunk in chunks:
                process.stdin.write(chunk)
            process.stdin.close()
        except BrokenPipeError:
            pass
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise ProductError(f"git fast-import failed in {directory}: {said.splitlines()[0] if said else ''}")


def require() -> None:
    """Raise ``HostError`` when git is not installed."""
    if shutil.which("git") is None:
        raise HostError("git is not installed", hint="run ./bootstrap, or install the package git")
