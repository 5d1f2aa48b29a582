"""Frames of the AXDL protocol, and reading them from a noisy line.

A frame: magic (4 bytes), length of the data (2), command or reply (2), data, and the complement of the 16-bit
ones' complement sum of what lies between magic and sum (2); all little-endian. Sources: axdl-rs
``axdl/src/frame.rs``; the values of the replies: ``include/fdl_frame.h`` of the sibling AX620E's U-Boot
2020.04. The AX650's file of that name is not public, and uses the same names: that the values are the
same too is an inference.
"""

from __future__ import annotations

import enum
import struct
import time
from dataclasses import dataclass

from boardwright.console.transport import Port
from boardwright.errors import HostError, ProductError

MAGIC = 0x5C6D8E9F
LARGEST_DATA = 50 * 1024
_MAGIC = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<I2H")
_EXCEPT_DATA = _HEAD.size + 2

READY = b"\x3c\x3c\x3c"
"""What the host says first, to the boot ROM and to each loader."""
AGAIN = "hold BOOT, tap RST, and start again: the ROM takes a board in any state"


class AxdlError(HostError):
    """The cable, the port or the board's answers are in the way."""


class NoAnswer(AxdlError):
    """Nothing came in time."""


class BrokenFrame(AxdlError):
    """What came is damaged."""


class WrongStage(AxdlError):
    """The board runs something else than it should at this point."""


class Refused(ProductError):
    """The board's loader said no; ``code``: its reply."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, hint=_HINTS.get(code, AGAIN))
        self.code = code


class Command(enum.IntEnum):
    """What the host asks for."""

    CONNECT = 0
    START = 1
    DATA = 2
    END = 3
    EXEC = 4
    REBOOT = 5
    POWER_OFF = 6
    CHIP_ID = 7
    BAUD = 9
    ERASE = 0xA
    REPARTITION = 0xB
    CHIP_UID = 0xC
    READ_START = 0x10
    READ_DATA = 0x11
    READ_END = 0x12


class Reply(enum.IntEnum):
    """What the board answers."""

    ACK = 0x80
    VERSION = 0x81
    INVALID_COMMAND = 0x82
    UNKNOWN_COMMAND = 0x83
    OPERATION_FAILED = 0x84
    EIP_INVALID = 0x85
    EIP_DATA = 0x86
    EIP_HASH = 0x87
    SIGNATURE = 0x88
    DESTINATION = 0x89
    SIZE = 0x8A
    CHECKSUM = 0x8B
    INVALID_PARTITION = 0x8C
    FLASH_DATA = 0x93


_HINTS: dict[int, str] = {
    Reply.SIGNATURE: "this chip takes signed images only: use the vendor's own files, unchanged",
    Reply.DESTINATION: "the loader could not write there, or could not read the sparse image",
    Reply.SIZE: "the image is larger than its partition, or bytes were lost on the way",
    Reply.INVALID_PARTITION: "the loader has no partition of that name",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """``code``: a :class:`Command` or :class:`Reply`."""

    code: int
    data: bytes = b""

    @property
    def reply(self) -> str:
        """The reply by name, for people."""
        if self.code not in list(Reply):
            return f"an unknown reply ({self.code:#x})"
        return f"{Reply(self.code).name.lower().replace('_', ' ')} ({self.code:#x})"


def checksum(data: bytes) -> int:
    """The complement of the ones' complement sum of little-endian 16-bit words; an odd byte counts alone."""
    padded = data + b"\0" * (len(data) % 2)
    words: tuple[int, ...] = struct.unpack(f"<{len(padded) // 2}H", padded)
    total = sum(words)
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def encode(frame: Frame) -> bytes:
    """The bytes on the line."""
    if len(frame.data) > LARGEST_DATA:
        raise ValueError(f"a frame holds {LARGEST_DATA} bytes, found {len(frame.data)}")
    body = struct.pack("<2H", len(frame.data), frame.code) + frame.data
    return _MAGIC + body + struct.pack("<H", checksum(body))


def word_sum(data: bytes) -> int:
    """What a block of an image is checked with: 32-bit words, and the last one to three bytes each alone
    (vendor's U-Boot, ``fdl_engine.c``, calc_image_checkSum)."""
    whole = len(data) // 4 * 4
    words: tuple[int, ...] = struct.unpack(f"<{whole // 4}I", data[:whole])
    return (sum(words) + sum(data[whole:])) & 0xFFFFFFFF


class Decoder:
    """Frames out of bytes as they come; what lies between two is dropped (a ROM prints on its UART)."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        self._held += data

    def take(self) -> Frame | None:
        """The next frame, None while it is not whole. Raises ``BrokenFrame`` and goes on behind its magic."""
        held = self._held
        at = held.find(_MAGIC)
        if at < 0:
            del held[: max(0, len(held) - len(_MAGIC) + 1)]
            return None
        del held[:at]
        if len(held) < _HEAD.size:
            return None
        _, length, code = _HEAD.unpack_from(held)
        if length > LARGEST_DATA:
            del held[: len(_MAGIC)]
            raise BrokenFrame(
                f"a frame says that it holds {length} bytes, {LARGEST_DATA} are possible", hint=AGAIN
            )
        if len(held) < (end := _EXCEPT_DATA + length):
            return None
        body, (stored,) = bytes(held[4 : end - 2]), struct.unpack_from("<H", held, end - 2)
        if stored != (found := checksum(body)):
            del held[: len(_MAGIC)]
            raise BrokenFrame(
                f"a frame from the board has the checksum {stored:#06x}, its bytes make {found:#06x}",
                hint=AGAIN,
            )
        del held[:end]
        return Frame(code, body[4:])

    def rest(self) -> bytes:
        """What is held behind the last frame, given back."""
        held = bytes(self._held)
        self._held.clear()
        return held


def read_frame(port: Port, decoder: Decoder, seconds: float) -> Frame | None:
    """The next frame, None when ``seconds`` pass without one. Raises ``BrokenFrame``, ``ConsoleLost``."""
    end, late = time.monotonic() + seconds, False
    while (frame := decoder.take()) is None:
        if late:
            return None
        # One read more after the end: what has arrived counts, however late this process is woken.
        late = (left := end - time.monotonic()) <= 0
        decoder.feed(port.read(max(left, 0.001)))
    return frame
