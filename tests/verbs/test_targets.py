"""``--target``: what a word means, and that a board on a port is reached and switched on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from boardwright.errors import InputError
from boardwright.verbs.targets import Target, connect, parse


def test_the_words(tmp_path: Path) -> None:
    recording = tmp_path / "console.cast"
    recording.touch()
    assert parse("qemu") == Target("qemu")
    assert parse("serial:rfc2217://lab:4001") == Target("serial", "rfc2217://lab:4001")
    assert parse("labgrid:rock5b-1") == Target("labgrid", "rock5b-1")
    assert parse(f"replay:{recording}").recording == recording
    assert parse("replay", str(recording)).recording == recording


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("qmu", "no target 'qmu'"),
        ("qemu:x", "expected qemu alone"),
        ("serial", "expected serial:PORT"),
        ("labgrid:", "expected labgrid:PLACE"),
        ("replay", "expected replay:FILE"),
        ("replay:/not/there", "no recording /not/there"),
    ],
)
def test_a_wrong_word_is_refused(word: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse(word)


def test_power_is_for_boards_only() -> None:
    assert connect(Target("qemu"), 1500000, "", "") is None
    with pytest.raises(InputError, match="the target is qemu"):
        connect(Target("qemu"), 1500000, "person", "")
    with pytest.raises(InputError, match="for labgrid:PLACE"):
        connect(Target("serial", "x"), 1500000, "", "lab:20408")


def test_a_board_is_switched_on_after_its_port_is_open(tmp_path: Path) -> None:
    switched = tmp_path / "switched"
    switch = tmp_path / "switch"
    switch.write_text(f'#!/bin/sh\necho "$1" >> {switched}\n')
    switch.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_speak, args=(server, switched), daemon=True).start()
        where = Target("serial", f"socket://127.0.0.1:{server.getsockname()[1]}")
        connected = connect(where, 1500000, f"command:{switch}", "")
        assert connected is not None
        with contextlib.ExitStack() as stack:
            port = connected(stack)
            assert port.read(5.0) == b"U-Boot"
    assert switched.read_text().split() == ["off", "on"]


def _speak(server: socket.socket, switched: Path) -> None:
    board, _ = server.accept()
    with board:
        while "on" not in switched.read_text().split():
            time.sleep(0.02)
        board.sendall(b"U-Boot")
        board.recv(1)
