"""A bad cable, from a seed: what adapters, hubs, loads and people do to bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from boardwright.console.errors import ConsoleLost
from boardwright.console.transport import Gap, Port

_BURST_SECONDS = 0.1
"""A burst ends with its cause: a full buffer, a busy host; it does not wait for the next byte."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of bytes (0 to 1) in both directions, and habits of a bad cable."""

    drop: float = 0.0
    double: float = 0.0
    flip: float = 0.0
    burst: float = 0.0
    """Share of bytes at which a burst of losses begins."""
    burst_length: int = 24
    stall: float = 0.0
    """Share of reads that are held back for a fifth of a second."""
    stolen: float = 0.0
    """Share of reads that another reader of the port gets."""
    largest_read: int = 4096
    lost_after: int | None = None
    """Bytes received after which the port goes away, for ``away`` seconds, or for good."""
    away: float | None = None
    cut_after: int | None = None
    """Bytes received after which the line is dead for good in both directions, though the port is there."""
    fifo: int | None = None
    """Bytes that the board's receiver holds; what comes while it is full is lost."""
    fifo_drain: float = 10_000.0
    """Bytes a second at which the board takes them out."""
    baud: tuple[int, int] | None = None
    """The rate the board sends at, and ours."""


class BadCable:
    """Wraps a port. The same seed makes the same faults, so a failure can be looked at again."""

    def __init__(
        self, port: Port, faults: Faults, seed: int, clock: Callable[[], float] | None = None
    ) -> None:
        self._port, self._faults, self._clock = port, faults, clock
        self._random = random.Random(seed)
        self._held = b""
        self._received = 0
        self._burst_left, self._burst_at = 0, 0.0
        self._returned = False
        self._level, self._filled_at = 0.0, 0.0

    def read(self, seconds: float) -> bytes:
        faults = self._faults
        if not self._held:
            data = self._port.read(seconds)
            if data and self._random.random() < faults.stall:
                data += self._port.read(0.2)
            if data and self._random.random() < faults.stolen:
                data = b""
            self._held = self._spoil(data if faults.baud is None else misread(data, *faults.baud))
        if faults.cut_after is not None and self._received > faults.cut_after:
            self._held = b""
        data, self._held = self._held[: faults.largest_read], self._held[faults.largest_read :]
        self._received += len(data)
        if faults.lost_after is not None and self._received > faults.lost_after and not self._returned:
            self._go_away()
        return data

    def write(self, data: bytes) -> None:
        if self._faults.cut_after is None or self._received <= self._faults.cut_after:
            self._port.write(self._spoil(self._received_by_board(data)))

    def close(self) -> None:
        self._port.close()

    def _received_by_board(self, data: bytes) -> bytes:
        """What a receiver keeps that holds ``fifo`` bytes; all that we write at once comes at once."""
        faults = self._faults
        if faults.fifo is None or self._clock is None:
            return data
        now = self._clock()
        self._level = max(self._level - (now - self._filled_at) * faults.fifo_drain, 0.0)
        kept = data[: max(int(faults.fifo - self._level), 0)]
        self._level, self._filled_at = self._level + len(kept), now
        return kept

    def _go_away(self) -> None:
        if self._faults.away is None or self._clock is None:
            raise ConsoleLost("the serial port went away: unplugged by the test")
        end = self._clock() + self._faults.away
        while (left := end - self._clock()) > 0:
            self._port.read(left)
        self._returned = True
        raise Gap(f"gap: the port was away for {self._faults.away:.1f} s")

    def _spoil(self, data: bytes) -> bytes:
        faults, spoiled = self._faults, bytearray()
        if self._clock is not None and self._clock() > self._burst_at + _BURST_SECONDS:
            self._burst_left = 0
        for byte in data:
            if faults.burst and self._random.random() < faults.burst:
                self._burst_left = faults.burst_length
                self._burst_at = self._clock() if self._clock is not None else 0.0
            chance = self._random.random()
            if self._burst_left:
                self._burst_left -= 1
                continue
            if chance < faults.drop:
                continue
            if chance < faults.drop + faults.double:
                spoiled.append(byte)
            elif chance < faults.drop + faults.double + faults.flip:
                byte ^= 1 << self._random.randrange(8)
            spoiled.append(byte)
        return bytes(spoiled)


def misread(data: bytes, sent: int, read: int) -> bytes:
    """What a UART at ``read`` baud makes of bytes sent at ``sent`` baud, 8N1, without pauses.

    The line's levels bit by bit: start 0, eight data bits from the lowest, stop 1; the receiver starts at a
    falling edge and samples the middle of each of its own bits. A framing error is delivered as its byte.
    """
    levels = [bit for byte in data for bit in (0, *((byte >> i) & 1 for i in range(8)), 1)]
    step, at, got = sent / read, 0.0, bytearray()

    def level(when: float) -> int:
        return levels[int(when)] if int(when) < len(levels) else 1

    while at < len(levels):
        if level(at):
            at = int(at) + 1.0
            continue
        got.append(sum(level(at + step * (1.5 + i)) << i for i in range(8)))
        at += step * 9.5
    return bytes(got)
