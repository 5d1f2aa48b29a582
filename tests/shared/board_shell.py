"""A board that runs: a real shell of this host on a pseudo-terminal, behind a TCP port as its console."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardwright.console.console import Console
from boardwright.console.transport import SerialPort


@contextlib.contextmanager
def board(*command: str, **environment: str) -> Iterator[str]:
    """The URL of the console; the shell starts with the first connection."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, command, environment), daemon=True)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
    thread.join(20)


def _serve(server: socket.socket, command: tuple[str, ...], environment: dict[str, str]) -> None:
    server.settimeout(60)
    try:
        connection, _ = server.accept()
    except OSError:
        return
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PS1="root@board:~# ", TERM="vt220", ENV="", **environment)
        os.execvp(command[0], command)
    try:
        with connection, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([connection, terminal], [], [], 60)
                if connection in ready:
                    if not (data := connection.recv(4096)):
                        return
                    os.write(terminal, data)
                if terminal in ready:
                    connection.sendall(os.read(terminal, 4096))
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextlib.contextmanager
def shell(*command: str, **environment: str) -> Iterator[Console]:
    """A console at the shell."""
    with board(*command, **environment) as url, Console(SerialPort(url)) as console:
        console.boot(900)
        yield console


@contextlib.contextmanager
def loop_disk(backing: Path, size: int) -> Iterator[Path]:
    """A loop device over a file full of 0xAA; skips where there are none to be had."""
    backing.write_bytes(b"\xaa" * size)
    try:
        command = ["losetup", "--find", "--show", str(backing)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("losetup is not installed")
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    disk = done.stdout.strip()
    try:
        yield Path(disk)
    finally:
        subprocess.run(["losetup", "--detach", disk], check=True)
