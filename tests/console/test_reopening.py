"""A port that goes away and comes back leaves a marked gap; one that stays away is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from console_boards import GOOD

from boardwright.console.console import Console
from boardwright.console.errors import ConsoleLost
from boardwright.console.reopening import ReopeningPort, stable
from boardwright.console.simulator import BoardPort, ScriptedBoard
from boardwright.console.transcript import Transcript, read, timed_lines


class Adapter:
    """Opens one board again and again; each opening lasts for so many reads."""

    def __init__(self, board: BoardPort, lives: list[int], away: float) -> None:
        self.board, self.lives, self.away, self.gone_at = board, lives, away, -1e9
        self.opened: list[str] = []

    def open(self, url: str, _baud: int) -> Adapter:
        if self.board.now < self.gone_at + self.away:
            raise ConsoleLost(f"{url} does not open")
        self.opened.append(url)
        self.left = self.lives.pop(0)
        return self

    def read(self, seconds: float) -> bytes:
        self.left -= 1
        if self.left < 0:
            self.gone_at = self.board.now
            raise ConsoleLost("the serial port went away: unplugged")
        return self.board.read(seconds)

    def write(self, data: bytes) -> None:
        self.board.write(data)

    def close(self) -> None: ...


def reopening(adapter: Adapter, patience: float) -> ReopeningPort:
    def sleep(seconds: float) -> None:
        adapter.board.now += max(seconds, 0.01)

    return ReopeningPort(
        "/dev/serial/x", patience=patience, opener=adapter.open, clock=adapter.board.clock, sleep=sleep
    )


def test_a_port_that_vanishes_and_returns_is_marked_and_the_boot_goes_on(tmp_path: Path) -> None:
    board = BoardPort(ScriptedBoard(GOOD))
    adapter = Adapter(board, [6, 10**9], away=2.0)
    cast, raw = tmp_path / "c.cast", tmp_path / "c.raw"
    port = reopening(adapter, 30.0)
    with Console(port, clock=board.clock, transcript=Transcript(cast, raw=raw)) as console:
        console.boot(300)
        assert console.run("uname -r").line == "6.12.0-test"
        assert len(console.channel.gaps) == 1
    events = read(cast)
    marks = [event.data.decode() for event in events if event.direction == "m"]
    assert len(marks) == 1
    assert marks[0].startswith("gap: the port was away for 2.")
    assert any("-- gap: the port was away" in line for line in timed_lines(events))
    assert raw.read_bytes() == b"".join(event.data for event in events if event.direction == "o")


def test_nothing_matches_across_a_gap() -> None:
    from boardwright.console.channel import Channel
    from boardwright.console.matcher import bounded
    from boardwright.console.transport import Gap
    from boardwright.console.watch import Watch

    class Port:
        def __init__(self) -> None:
            self.reads: list[bytes | Gap] = [b"Kernel pa", Gap("gap: 1 s"), b"nic - not syncing\n"]
            self.now = 0.0

        def read(self, seconds: float) -> bytes:
            if not self.reads:
                self.now += seconds
                return b""
            if isinstance(item := self.reads.pop(0), Gap):
                raise item
            return item

        def write(self, data: bytes) -> None: ...
        def close(self) -> None: ...

    port, watch = Port(), Watch()
    channel = Channel(port, Transcript(None), watch, lambda: port.now)
    assert channel.find([bounded("Kernel panic")], 1.0) is None
    assert watch.findings == []
    assert "[gap: 1 s]" in channel.unread


def test_a_port_that_stays_away_is_lost() -> None:
    board = BoardPort(ScriptedBoard(GOOD))
    adapter = Adapter(board, [6], away=1e9)
    with (
        Console(reopening(adapter, 5.0), clock=board.clock) as console,
        pytest.raises(ConsoleLost, match="did not come back within 5 s"),
    ):
        console.boot(300)


def test_a_tty_is_known_by_its_stable_name_so_that_it_is_found_under_another(tmp_path: Path) -> None:
    device, by_id = tmp_path / "ttyUSB0", tmp_path / "by-id"
    device.touch()
    by_id.mkdir()
    link = by_id / "usb-FTDI_FT232R_A1-if00-port0"
    link.symlink_to(device)
    assert stable(str(device), by_id) == str(link)
    assert stable("ft232r", by_id) == str(link)
    assert stable("rfc2217://127.0.0.1:4000", by_id) == "rfc2217://127.0.0.1:4000"
    (by_id / "usb-FTDI_FT232R_B2-if00-port0").symlink_to(tmp_path / "ttyUSB1")
    with pytest.raises(ConsoleLost, match="expected one serial adapter with 'ftdi'"):
        stable("ftdi", by_id)
