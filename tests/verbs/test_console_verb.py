"""``invoke console`` on a real terminal, with a simulated board or a real shell behind a TCP port."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from board_shell import board as running_board

from boardwright.console import bootscript
from boardwright.console.simulator import Script, ScriptedBoard, serve
from boardwright.console.transcript import read
from boardwright.errors import InputError
from boardwright.verbs.console import console

ROOT = Path(__file__).parents[2]
SCRIPT = bootscript.load(ROOT / "tests/console/scripts/rock5b.yaml")
LEAVE = b"\x1d"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the boards of this one, and an ``out`` of its own."""
    for name in ("boards", "recipes", "patches"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "tasks.py", tmp_path)
    return tmp_path


class Person:
    """At a terminal on which ``invoke console`` runs."""

    def __init__(self, project: Path, *words: str) -> None:
        self.ours, self._theirs = pty.openpty()
        self.before = termios.tcgetattr(self._theirs)
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "invoke", "console", "--board", "rock5b", *words],
            stdin=self._theirs, stdout=self._theirs, stderr=self._theirs, cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip

    def until(self, text: str, seconds: float = 60.0, meanwhile: Callable[[], None] | None = None) -> None:
        """Look at the terminal until ``text`` stands there, after what was looked at before.

        ``meanwhile`` is called every fifth of a second.
        """
        end, new = time.monotonic() + seconds, b""
        while text.encode() not in new:
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {self.seen.decode(errors='replace')}"
            if meanwhile is not None:
                meanwhile()
            if select.select([self.ours], [], [], left if meanwhile is None else 0.2)[0]:
                data = os.read(self.ours, 4096)
                new, self.seen = new + data, self.seen + data

    def types(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def ends(self, seconds: float = 60.0) -> int:
        """The status; the terminal must be as it was."""
        status = self.process.wait(seconds)
        assert termios.tcgetattr(self._theirs) == self.before
        while select.select([self.ours], [], [], 0)[0]:
            self.seen += os.read(self.ours, 4096)
        assert b"Traceback" not in self.seen
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)


@contextlib.contextmanager
def person(project: Path, *words: str) -> Iterator[Person]:
    someone = Person(project, *words)
    try:
        yield someone
    finally:
        someone.close()


@contextlib.contextmanager
def board(script: Script, speed: float = 4.0, sessions: int = 1) -> Iterator[str]:
    """The target's word. Each of ``sessions`` connections meets a board that is just switched on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, script, speed, sessions))
        thread.start()
        yield f"serial:socket://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


def _serve(server: socket.socket, script: Script, speed: float, sessions: int) -> None:
    server.settimeout(60)
    for _ in range(sessions):
        peer, _ = server.accept()
        with peer, contextlib.suppress(OSError):
            serve(ScriptedBoard(script), peer.fileno(), 60.0, speed)


def test_a_session_is_shown_and_recorded_and_ctrl_c_is_the_boards(project: Path) -> None:
    with board(SCRIPT) as target, person(project, "--target", target) as someone:
        someone.until("Multi-User System")
        someone.until("root@rock5b:~# ")
        someone.types(b"grumble\x03")
        someone.until("grumble^C")
        someone.types(LEAVE)
        assert someone.ends() == 0
    (cast,) = (project / "out/rock5b/console").glob("*.cast")
    said = b"".join(event.data for event in read(cast) if event.direction == "o")
    assert said == cast.with_suffix(".raw").read_bytes()
    assert b"U-Boot SPL" in said
    assert b"grumble^C" in said
    assert str(cast).encode() in someone.seen


def test_autoboot_is_stopped_and_the_prompt_is_the_persons(project: Path) -> None:
    with board(SCRIPT, 2.0) as target, person(project, "--target", target, "--stop-autoboot") as someone:
        someone.until("=> ")
        someone.until("=> \r\n=> ")
        someone.types(b"printenv board_name\r")
        someone.until("board_name=rock5b")
        someone.types(LEAVE)
        assert someone.ends() == 0
    assert b"Starting kernel" not in someone.seen


def test_a_countdown_that_is_missed_is_said_and_the_person_goes_on(project: Path) -> None:
    assert SCRIPT.loader is not None
    script = replace(SCRIPT, loader=replace(SCRIPT.loader, seconds=0))
    with board(script) as target, person(project, "--target", target, "--stop-autoboot") as someone:
        someone.until("the kernel started before the loader's countdown could be stopped")
        someone.until("root@rock5b:~# ")
        someone.types(LEAVE)
        assert someone.ends() == 1


def test_a_port_that_stays_away_and_one_that_never_was(project: Path) -> None:
    with person(project, "--target", "serial:socket://127.0.0.1:1") as someone:
        someone.until("error: expected a serial port at socket://127.0.0.1:1")
        assert someone.ends() == 3
    assert not (project / "out").exists()


def test_a_server_that_is_restarted_is_a_marked_gap(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with person(project, "--target", f"serial:socket://127.0.0.1:{address[1]}") as someone:
            for words in (b"before\r\n", b"after\r\n"):
                peer, _ = server.accept()
                with peer:
                    # what comes while pyserial opens a socket is dropped, so the words are said again
                    someone.until(words.decode().strip(), meanwhile=partial(peer.sendall, words))
                    if words == b"after\r\n":
                        someone.types(b"x" + LEAVE)
                        assert peer.recv(1) == b"x"
                        assert someone.ends() == 0
    assert b"gap: the port was away" in someone.seen


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--target: expected serial:PORT or labgrid:PLACE"),
        (("--target", "qemu"), "invoke qemu is a terminal on the emulator"),
        (("--target", "serial:x", "--cycle"), "add --power"),
        (("--target", "serial:x", "--key", "spacebar"), "expected one character or enter, space"),
        (("--target", "serial:x", "--budget", "soon"), "expected a whole number"),
        (("--target", "serial:x", "--power", "rocket"), "rocket"),
    ],
)
def test_a_wrong_request_is_one_clear_error(project: Path, words: tuple[str, ...], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "console", "--board", "rock5b", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=project, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_terminal_it_is_said(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "console", "--board", "rock5b", "--target", "serial:socket://x:1"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=project, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 3
    assert "expected a terminal" in done.stderr


def push(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``invoke console --push …`` as a script runs it: no terminal."""
    return subprocess.run(
        [sys.executable, "-m", "invoke", "console", "--board", "rock5b", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=project, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize("size", [0, 5000])
def test_a_pushed_file_arrives_byte_for_byte(project: Path, tmp_path: Path, size: int) -> None:
    data, there = random.Random(size).randbytes(size), tmp_path / "on the board" / "fw.bin"
    there.parent.mkdir()
    (tmp_path / "a:b.bin").write_bytes(data)
    with running_board("sh", "-i") as url:
        done = push(project, "--target", f"serial:{url}", "--push", f"{tmp_path}/a:b.bin:{there}")
    assert done.returncode == 0, done.stderr
    assert there.read_bytes() == data
    assert not there.with_name("fw.bin.part").exists()
    assert f"{there} is there, SHA-256 {hashlib.sha256(data).hexdigest()}" in done.stderr
    (cast,) = (project / "out/rock5b/console").glob("*.cast")
    assert b"base64 -d" in b"".join(event.data for event in read(cast)) or not size


def test_a_file_that_was_begun_is_gone_on_with(project: Path, tmp_path: Path) -> None:
    data, there = random.Random(1).randbytes(5000), tmp_path / "fw.bin"
    (tmp_path / "here").write_bytes(data)
    there.with_name("fw.bin.part").write_bytes(data[:4000])
    with running_board("sh", "-i") as url:
        done = push(project, "--target", f"serial:{url}", "--push", f"{tmp_path}/here:{there}")
    assert done.returncode == 0, done.stderr
    assert there.read_bytes() == data
    assert "4900 of 5000 bytes" in done.stderr  # and nothing before
    assert "900 of 5000 bytes\n" not in done.stderr.replace("4900 of", "")


def test_a_directory_on_the_board_is_not_taken_for_the_file(project: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x")
    (tmp_path / "firmware").mkdir()
    with running_board("sh", "-i") as url:
        done = push(project, "--target", f"serial:{url}", "--push", f"{tmp_path}/here:{tmp_path}/firmware")
    assert done.returncode == 2
    assert "is a directory on the board" in done.stderr
    assert not list((tmp_path / "firmware").iterdir())


def test_a_file_that_the_board_cannot_write_is_the_boards_failure(project: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x" * 100)
    with running_board("sh", "-i") as url:
        done = push(project, "--target", f"serial:{url}", "--push", f"{tmp_path}/here:/proc/there/is/none")
    assert done.returncode == 1
    assert "the board cannot write /proc/there/is/none.part" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_board_that_panics_is_the_product_and_nothing_is_pushed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x")
    kernel = next(n for n, (_, text) in enumerate(SCRIPT.boot) if "Booting Linux" in text)
    panic = (0.2, "[    1.000000] Kernel panic - not syncing: VFS: Unable to mount root fs\n")
    script = replace(SCRIPT, boot=(*SCRIPT.boot[: kernel + 1], panic), reaches_shell=False)
    with board(script) as target:
        done = push(project, "--target", target, "--push", f"{tmp_path}/here:{tmp_path}/there")
    assert done.returncode == 1
    assert "Kernel panic" in done.stderr
    assert "bytes" not in done.stderr
    assert not (tmp_path / "there").exists()


def test_a_line_without_a_byte_is_the_labs_fault_and_nothing_is_pushed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = f"serial:socket://127.0.0.1:{server.getsockname()[1]}"
        done = push(project, "--target", target, "--push", f"{tmp_path}/here:/tmp/there", "--budget", "3")
    assert done.returncode == 3
    assert "not one byte" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("push", "told"),
    [
        ("here", "expected FILE:/PATH"),
        ("here:there", "expected FILE:/PATH"),
        (":/there", "expected FILE:/PATH"),
        ("here:/there/", "expected FILE:/PATH"),
        ("missing:/there", "missing: No such file"),
        ("big:/there", "has 4194305 bytes"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_the_port_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, push: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").write_bytes(b"x")
    Path("big").write_bytes(bytes(2**22 + 1))
    with pytest.raises(InputError, match=re.escape(told)):
        console(ROOT, "rock5b", "", "serial:/dev/there-is-none", push=push)
