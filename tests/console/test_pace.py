"""A receiver without flow control gets what it can hold."""

from __future__ import annotations

import contextlib

import pytest
from console_boards import ANSWERS, GOOD

from boardwright.console.cable import BadCable, Faults
from boardwright.console.channel import Channel, Pace, pace_of
from boardwright.console.console import Console
from boardwright.console.simulator import BoardPort, ScriptedBoard
from boardwright.console.transcript import Transcript
from boardwright.console.watch import Watch
from boardwright.errors import BoardwrightError
from boardwright.schema import board as schema

SMALL = Faults(fifo=16, fifo_drain=2000.0)
"""A 16550's FIFO behind a busy processor."""


def console(pace: Pace | None) -> Console:
    port = BoardPort(ScriptedBoard(GOOD))
    return Console(BadCable(port, SMALL, 1, port.clock), clock=port.clock, pace=pace)


def test_a_slow_receiver_takes_paced_lines_whole() -> None:
    with console(Pace(8, 0.005)) as board:
        board.boot(600)
        assert {command: board.run(command) for command in ANSWERS} == ANSWERS
        assert not board.careful
        paced = board.channel.seconds
    with console(None) as board:  # without, it costs the careful way, or an error; never a wrong value
        with contextlib.suppress(BoardwrightError):
            board.boot(600)
            assert board.careful
        assert board.channel.seconds > paced


def test_the_pieces_and_the_pauses() -> None:
    class Port:
        def __init__(self) -> None:
            self.now, self.sent = 0.0, list[tuple[float, bytes]]()

        def read(self, seconds: float) -> bytes:
            self.now += seconds
            return b""

        def write(self, data: bytes) -> None:
            self.sent.append((round(self.now, 6), data))

        def close(self) -> None: ...

    port = Port()
    channel = Channel(port, Transcript(None), Watch(), lambda: port.now, Pace(3, 0.25))
    channel.write("printenv")
    assert port.sent == [(0.0, b"pri"), (0.25, b"nte"), (0.5, b"nv")]


@pytest.mark.parametrize("pace", [(0, 0.1), (8, 0.0), (8, 2.0)])
def test_a_pace_that_is_none_is_refused(pace: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="expected 1 byte or more"):
        Pace(*pace)


def test_the_words_of_a_board_file() -> None:
    words = schema.Console(baud=115200, device="ttyS2")
    assert pace_of(words) is None
    paced = schema.Console(baud=115200, device="ttyS2", pace=schema.Pace(chunk=8, delay_ms=5))
    assert pace_of(paced) == Pace(8, 0.005)
