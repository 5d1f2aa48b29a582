"""The programs of a lab that tests start for real: Debian's ser2net, and labgrid in its own environment."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import socket
import subprocess
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardwright.console.simulator import Script, ScriptedBoard, serve


def ser2net() -> str:
    """Path of ser2net; skips the test when Debian's package is not installed."""
    found = shutil.which("ser2net", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("Debian's package ser2net is not installed")
    return found


def labgrid() -> Path:
    """Directory of labgrid's programs; skips when BOARDWRIGHT_TEST_LABGRID names no environment with them."""
    root = os.environ.get("BOARDWRIGHT_TEST_LABGRID", "")
    if not root or not (Path(root) / "bin/labgrid-coordinator").exists():
        pytest.skip("BOARDWRIGHT_TEST_LABGRID names no environment made from requirements-labgrid.lock")
    return Path(root) / "bin"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], log: Path, port: int = 0, **environment: str) -> Iterator[None]:
    """A program for a ``with``; returns when it listens on ``port``."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=log.parent,
            env={**os.environ, **environment},
        )
    try:
        end = time.monotonic() + 30
        while port:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < end, f"{command[0]} does not listen: {log.read_text()}"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


class BoardOnPty:
    """A simulated board on a terminal device; :meth:`power_on` starts it."""

    def __init__(self, script: Script, speed: float = 1.0) -> None:
        self._script, self._speed = script, speed
        self._ours, self._theirs = pty.openpty()
        tty.setraw(self._theirs)
        self.device = os.ttyname(self._theirs)
        self._thread: threading.Thread | None = None

    def power_on(self) -> None:
        if self._thread is None:
            board = ScriptedBoard(self._script)
            self._thread = threading.Thread(
                target=serve, args=(board, self._ours, 120.0, self._speed), daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        os.close(self._theirs)
        if self._thread is not None:
            self._thread.join(20)
        os.close(self._ours)
