"""A board in download mode that exists only as text: what AXDL is tested against.

Written from the vendor's U-Boot 2020.04 (``fdl_engine.c``, ``fdl_channel.c``, ``download.c``, and
``sparse_img.c``) and, for the mask ROM, from what axdl-rs says to it: a test that passes here shows that we
follow those sources, not that a board does.
"""

from __future__ import annotations

import enum
import io
import os
import select
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from boardwright.errors import BoardwrightError
from boardwright.vendor import sparse
from boardwright.vendor.axdl_frame import READY, BrokenFrame, Command, Decoder, Frame, Reply, encode, word_sum

BOOTARGS = (
    "mem=6144M console=ttyS0,115200n8 rootfstype=ext4 rw rootwait root=/dev/mmcblk0p10 blkdevparts=mmcblk0:"
)
_UNITS = {0: (2**20, "M", 1), 1: (2**19, "K", 512), 2: (2**10, "K", 1)}
_REST = 0xFFFFFFFF


class Vanished(Exception):
    """The board is no longer at the other end."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. Replies, data blocks and handshakes are counted from 0, over all that is said."""

    deaf: int = 0
    """So many handshakes are not heard."""
    noise: bytes = b""
    """Printed before each answer, as a ROM does on its UART."""
    refuse: Mapping[int, int] = field(default_factory=dict)
    """Reply number: the code that is sent instead of it; the loader then leaves its loop."""
    spoil_reply: int | None = None
    """This reply comes with a flipped bit."""
    lose_reply: int | None = None
    """This reply does not come."""
    flip_blocks: frozenset[int] = frozenset()
    """These blocks of data come with a flipped bit."""
    short_block: int | None = None
    """Of this block of data the last byte is lost."""
    vanish_after: int | None = None
    """Bytes received after which the board is gone."""
    greeting: Mapping[str, bytes] = field(default_factory=dict)
    """Stage: what it says instead of its own greeting."""


class Stage(enum.StrEnum):
    """What runs on the board."""

    ROM = "romcode v1.0;raw"
    FDL1 = "fdl1 v1.0;raw"
    FDL2 = "fdl2 v1.0;raw"
    LEFT = "left"
    """The loader's loop has ended: nothing is answered until a reset."""


class SimulatedBoard:
    """``feed`` takes what the host sends and returns what the board answers; nothing here waits."""

    def __init__(self, faults: Faults = Faults(), *, levels: int = 1, disk: int = 64 * 2**20) -> None:
        self.stage = Stage.ROM
        self.ram: dict[int, bytes] = {}
        """Address: what was loaded there."""
        self.partitions: dict[str, bytes] = {}
        """What was written, by partition."""
        self.sizes: dict[str, int] = {}
        """Bytes of the partitions, from the table that was sent."""
        self.bootargs = ""
        self.commands: list[Command] = []
        self._faults, self._levels, self._disk = faults, levels, disk
        self._decoder, self._greeted = Decoder(), False
        self._received = self._replies = self._blocks = self._handshakes = 0
        self._raw = b""
        self._expected = 0
        self._sum: int | None = None
        self._image, self._target, self._size, self._wide = b"", "", 0, False

    def feed(self, data: bytes) -> bytes:
        """Raises ``Vanished``."""
        self._received += len(data)
        if self._faults.vanish_after is not None and self._received > self._faults.vanish_after:
            raise Vanished
        self._raw += data
        answer = b""
        while (more := self._step()) is not None:
            answer += more
        return answer

    def _step(self) -> bytes | None:
        """One thing done with what is held; None when more is needed."""
        if self.stage is Stage.LEFT:
            return None
        if not self._greeted:
            return self._handshake()
        if self._expected:
            return self._block() if len(self._raw) >= self._expected else None
        self._decoder.feed(self._raw)
        self._raw = b""
        try:
            frame = self._decoder.take()
        except BrokenFrame:
            return b""
        if frame is None:
            return None
        self._raw = self._decoder.rest()
        return self._command(frame)

    def _handshake(self) -> bytes | None:
        if len(self._raw) < len(READY):
            return None
        said, self._raw = self._raw[: len(READY)], self._raw[len(READY) :]
        self._handshakes += 1
        if said != READY or self._handshakes <= self._faults.deaf:
            return b""
        self._greeted = True
        greeting = self._faults.greeting.get(self.stage.name, self.stage.encode())
        return self._reply(Reply.VERSION, greeting)

    def _reply(self, code: int, data: bytes = b"") -> bytes:
        number, self._replies = self._replies, self._replies + 1
        if number in self._faults.refuse:
            code, data, self.stage = self._faults.refuse[number], b"", Stage.LEFT
        if number == self._faults.lose_reply:
            return b""
        answer = bytearray(encode(Frame(code, data)))
        if number == self._faults.spoil_reply:
            answer[-1] ^= 0x10
        return self._faults.noise + bytes(answer)

    def _fail(self, code: int | None = None) -> bytes:
        """The loader's loop ends, with a reply or without one."""
        answer = b"" if code is None else self._reply(code)
        self.stage = Stage.LEFT
        return answer

    def _command(self, frame: Frame) -> bytes:
        handlers = {
            Command.CONNECT: lambda _: self._reply(Reply.ACK),
            Command.START: self._start,
            Command.DATA: self._data,
            Command.END: self._end,
            Command.EXEC: self._exec,
            Command.REPARTITION: self._repartition,
        }
        try:
            command = Command(frame.code)
        except ValueError:
            return self._fail(Reply.UNKNOWN_COMMAND)
        self.commands.append(command)
        if command not in handlers or (self._in_flash and command is Command.EXEC):
            return self._fail(Reply.UNKNOWN_COMMAND)
        return handlers[command](frame.data)

    @property
    def _in_flash(self) -> bool:
        return self.stage is Stage.FDL2

    def _start(self, data: bytes) -> bytes:
        self._image = b""
        if self._in_flash:
            if len(data) not in (0x58, 0x5C):
                return self._fail(Reply.INVALID_COMMAND)
            self._target = data[:62].decode("utf-16-le").split("\0")[0]
            (self._size,) = struct.unpack_from("<Q", data, 72)
            room = self.sizes.get(self._target)
            return (
                self._fail(Reply.SIZE) if room is not None and self._size > room else self._reply(Reply.ACK)
            )
        wide = self.stage is Stage.FDL1
        if len(data) != (16 if wide else 8):
            return self._fail(Reply.INVALID_COMMAND)
        address, self._size = struct.unpack("<2Q" if wide else "<2I", data)
        self._target = str(address)
        return self._reply(Reply.ACK)

    def _data(self, data: bytes) -> bytes:
        size, checked, stored = struct.unpack("<3I", data)
        if len(self._image) + size > self._size:
            return self._fail(Reply.SIZE)
        self._expected, self._sum = size, stored if checked else None
        return self._reply(Reply.ACK)

    def _block(self) -> bytes:
        number, self._blocks = self._blocks, self._blocks + 1
        block, self._raw = bytearray(self._raw[: self._expected]), self._raw[self._expected :]
        if number == self._faults.short_block:
            self._raw = bytes(block[:-1])
            return b""  # it waits for the byte that is missing
        if number in self._faults.flip_blocks:
            block[len(block) // 2] ^= 1
        answer = b""
        if self._sum is not None and self._sum != word_sum(bytes(block)):
            answer = self._reply(Reply.CHECKSUM)  # and goes on as if nothing were wrong
        self._expected = 0
        self._image += bytes(block)
        return answer + self._reply(Reply.ACK)

    def _end(self, _: bytes) -> bytes:
        if len(self._image) != self._size:
            return self._fail(Reply.SIZE)
        if not self._in_flash:
            self.ram[int(self._target)] = self._image
            return self._reply(Reply.ACK)
        written = self._image
        if sparse.is_sparse(written):
            target = io.BytesIO()
            try:
                faults = list(sparse.for_ax650(sparse.Reader(io.BytesIO(written))))
                size = sparse.unpack(io.BytesIO(written), target).size
            except BoardwrightError:
                return self._fail(Reply.DESTINATION)
            if faults or size > self.sizes.get(self._target, size):
                return self._fail(Reply.DESTINATION)
            written = target.getvalue().ljust(size, b"\0")
        self.partitions[self._target] = written
        return self._reply(Reply.ACK)

    def _exec(self, _: bytes) -> bytes:
        """The loader itself sends the ACK, when it runs. A second stage does not wait for a handshake."""
        first = self._levels == 2 and self.stage is Stage.ROM
        second = self._levels == 2 and self.stage is Stage.FDL1
        self.stage, self._greeted = Stage.FDL1 if first else Stage.FDL2, second
        return self._reply(Reply.ACK)

    def _repartition(self, data: bytes) -> bytes:
        magic, _, unit, count = struct.unpack_from("<4s2BH", data)
        if magic != b"par:" or unit not in _UNITS or len(data) != 8 + 88 * count:
            return self._fail()
        scale, suffix, factor = _UNITS[unit]
        used, texts = 0, []
        for number in range(count):
            raw, size, _gap = struct.unpack_from("<72s2Q", data, 8 + 88 * number)
            name = raw.decode("utf-16-le").split("\0")[0]
            if size == _REST:
                if number != count - 1:
                    return self._fail()
                size = (self._disk - used) // scale
            used += size * scale
            self.sizes[name] = size * scale
            texts.append(f"{size * factor}{suffix}({name})")
        self.bootargs = BOOTARGS + ",".join(texts)
        return self._reply(Reply.ACK)


def serve(board: SimulatedBoard, descriptor: int, seconds: float) -> None:
    """Be the board on a descriptor until its other end closes, the board vanishes, or ``seconds`` pass."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], min(left, 0.2))
        try:
            if ready:
                told = os.read(descriptor, 2**16)
                if not told:
                    return
                answer = board.feed(told)
                while answer:
                    answer = answer[os.write(descriptor, answer) :]
        except (OSError, Vanished):
            return
