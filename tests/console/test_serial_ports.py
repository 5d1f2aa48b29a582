"""pyserial over a Unix socket, a TCP socket and a terminal, with a simulated board at the other end."""

from __future__ import annotations

import os
import pty
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from console_boards import ANSWERS, GOOD, LOADER

from boardwright.console.console import Console
from boardwright.console.errors import ConsoleLost
from boardwright.console.simulator import ScriptedBoard, serve
from boardwright.console.transcript import Transcript, read
from boardwright.console.transport import SerialPort

QUICK = replace(GOOD, boot=tuple((0.05, text) for _, text in GOOD.boot))


@contextmanager
def served(descriptor: int) -> Iterator[None]:
    thread = threading.Thread(target=serve, args=(ScriptedBoard(QUICK), descriptor, 60.0, 1.0))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def listening(kind: socket.AddressFamily, address: object) -> socket.socket:
    server = socket.socket(kind, socket.SOCK_STREAM)
    server.bind(address)  # type: ignore[arg-type]
    server.listen(1)
    return server


@pytest.mark.parametrize("kind", ["unix", "socket"])
def test_a_board_on_a_socket_boots_and_answers(kind: str, tmp_path: Path) -> None:
    if kind == "unix":
        server = listening(socket.AF_UNIX, str(tmp_path / "serial"))
        url = f"unix://{tmp_path}/serial"
    else:
        server = listening(socket.AF_INET, ("127.0.0.1", 0))
        url = f"socket://127.0.0.1:{server.getsockname()[1]}"
    with server:
        port = SerialPort(url)
        peer, _ = server.accept()
        with peer, served(peer.fileno()), Console(port) as console:
            console.boot(60)
            assert console.run("uname -r") == ANSWERS["uname -r"]


def test_a_board_on_a_terminal_device_boots_and_answers() -> None:
    ours, theirs = pty.openpty()
    try:
        port = SerialPort(os.ttyname(theirs), 1500000)
        with served(ours), Console(port) as console:
            console.boot(60)
            assert console.run("false").status == 1
            console.close()
            os.close(theirs)  # the last holder of the other end
    finally:
        os.close(ours)


def test_a_port_that_goes_away_is_lost_and_not_silent(tmp_path: Path) -> None:
    with listening(socket.AF_UNIX, str(tmp_path / "serial")) as server:
        port = SerialPort(f"unix://{tmp_path}/serial")
        peer, _ = server.accept()
        peer.sendall(b"U-Boot 2025.01\r\n")
        peer.close()
        with Console(port) as console, pytest.raises(ConsoleLost, match="went away"):
            console.boot(30)


@pytest.mark.parametrize("url", ["/dev/there-is-no-such-port", "unix:///there/is/no/socket", "nonsense://x"])
def test_a_port_that_does_not_open_is_a_lab_error(url: str) -> None:
    with pytest.raises(ConsoleLost, match="expected a serial port"):
        SerialPort(url)


def test_the_transcript_keeps_every_byte_and_its_time(tmp_path: Path) -> None:
    from console_boards import console

    path = tmp_path / "c.cast"
    with console(GOOD, transcript=Transcript(path)) as board:
        board.boot(300)
    events = read(path)
    said = b"".join(event.data for event in events if event.direction == "o")
    assert said.startswith("".join(text for _, text in LOADER).replace("\n", "\r\n").encode())
    assert [event.seconds for event in events] == sorted(event.seconds for event in events)
    assert any(event.direction == "i" and event.data == b"exec sh" for event in events)


def test_bytes_that_are_no_text_survive_the_transcript(tmp_path: Path) -> None:
    from boardwright.console.transcript import Event

    path, data = tmp_path / "c.cast", bytes(range(256))
    with Transcript(path) as transcript:
        transcript.add(Event(1.0, "o", data))
    assert read(path) == [Event(1.0, "o", data)]
