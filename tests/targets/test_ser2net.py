"""A board behind ser2net is reached over RFC 2217 as one on this host is."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from pathlib import Path

import pytest
from lab_tools import BoardOnPty, free_port, running, ser2net

from boardwright.console import bootscript
from boardwright.console.console import Console
from boardwright.console.errors import ConsoleLost
from boardwright.console.reopening import ReopeningPort
from boardwright.console.transport import SerialPort

ROCK = Path(__file__).parents[1] / "console/scripts/rock5b.yaml"


def command(device: str, port: int) -> list[str]:
    return [
        ser2net(), "-d", "-n",
        "-Y", f"connection: &c#  accepter: telnet(rfc2217,mode=server),tcp,127.0.0.1,{port}",
        "-Y", f"  connector: serialdev(nouucplock=true),{device},1500000n81,local",
        "-Y", "  options:", "-Y", "    kickolduser: true",
    ]  # fmt: skip


def test_a_board_behind_ser2net_boots_and_answers(tmp_path: Path) -> None:
    script, port = bootscript.load(ROCK), free_port()
    board = BoardOnPty(script, speed=10.0)
    try:
        with running(command(board.device, port), tmp_path / "log", port):
            cable = ReopeningPort(f"rfc2217://127.0.0.1:{port}", 1500000)
            board.power_on()
            with Console(cable) as console:
                console.boot(120)
                assert console.run("uname -r") == script.answers["uname -r"]
                assert console.run("false").status == 1
    finally:
        board.close()


def test_ser2net_is_restarted_in_mid_session_and_the_shell_is_the_same(tmp_path: Path) -> None:
    script, port = bootscript.load(ROCK), free_port()
    board = BoardOnPty(script, speed=10.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            with running(command(board.device, port), tmp_path / "log", port):
                cable = ReopeningPort(f"rfc2217://127.0.0.1:{port}", 1500000)
                console = Console(cable)
                board.power_on()
                console.boot(120)
                number = console.run("uname -r")
            console.channel.listen(0.5)  # nobody serves the port now
            with running(command(board.device, port), tmp_path / "log2", port):
                end = time.monotonic() + 30
                while not console.channel.gaps and time.monotonic() < end:
                    console.channel.listen(0.5)
                assert console.run("uname -r") == number == script.answers["uname -r"]
                console.close()
            assert [words.startswith("gap: the port was away") for _, words in console.channel.gaps] == [True]
            gc.collect()
    finally:
        board.close()


def test_the_last_words_before_a_server_ends_are_read_and_its_socket_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve_and_end, args=(server, b"Kernel panic - not syncing"))
        thread.start()
        port = SerialPort(f"rfc2217://127.0.0.1:{server.getsockname()[1]}")
        thread.join(20)
        peer = port._port._socket  # type: ignore[attr-defined]
        port._port._thread.join(20)  # type: ignore[attr-defined]
        assert port.read(0.2) == b"Kernel panic - not syncing"
        with pytest.raises(ConsoleLost, match="server closed the connection"):
            port.read(0.2)
        port.close()
    assert peer.fileno() == -1


def _serve_and_end(server: socket.socket, words: bytes) -> None:
    """As much of RFC 2217 as pyserial asks for, then ``words``, and the end.

    DO is answered by WILL and WILL by DO; a COM port command comes back with 100 added (RFC 2217, section 2).
    """
    iac, se, sb, will, do, com = 255, 240, 250, 251, 253, 44
    peer, _ = server.accept()
    peer.settimeout(10)
    told, purged = b"", False
    with peer:
        while not purged and (data := peer.recv(1024)):
            told += data
            while len(told) >= 3 and told[0] == iac:
                if told[1] != sb:
                    answer = {do: will, will: do}.get(told[1])
                    if answer is not None:
                        peer.sendall(bytes([iac, answer, told[2]]))
                    told = told[3:]
                elif (end := told.find(bytes([iac, se]))) >= 0:
                    key, value = told[3], told[4:end]
                    assert told[2] == com
                    peer.sendall(bytes([iac, sb, com, key + 100]) + value + bytes([iac, se]))
                    purged = key == 12 and value == b"\x02"  # the last that pyserial's open asks
                    told = told[end + 2 :]
                else:
                    break
        time.sleep(0.3)  # until open has dropped what came so far
        peer.sendall(words)
