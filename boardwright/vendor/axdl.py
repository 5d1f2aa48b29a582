"""AXDL: an image package into a board over USB or serial, through its boot ROM and the vendor's flash loader.

The ROM takes the flash loader (one stage on the AX650: its U-Boot) into RAM and runs it; the loader takes the
partition table and writes the images. Sources: axdl-rs ``axdl/src/lib.rs`` and ``communication.rs``; what the
loader does with each command: the vendor's U-Boot 2020.04, ``cmd/axera/download/fdl_engine.c`` and
``download.c``. Proven on a simulated board only (``axdl_simulator.py``, written from those sources).

What that source tells, and this module keeps to:

- After any refusal but one the loader leaves its loop: there is nothing to retry, the board must be reset.
- A block whose sum is wrong is answered with CHECKSUM and then with ACK, and is kept. So the image is
  begun again, which an image in the sparse form does not survive: there it is an error.
- The table is written into the saved environment with its compiled-in bootargs: ``mem=`` and ``root=``
  go back to theirs. It is sent only when the whole package is written, unless asked for.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from boardwright.console.errors import ConsoleLost
from boardwright.console.transport import Gap, Port, SerialPort
from boardwright.vendor.axdl_frame import (
    AGAIN,
    READY,
    AxdlError,
    BrokenFrame,
    Command,
    Decoder,
    Frame,
    NoAnswer,
    Refused,
    Reply,
    WrongStage,
    encode,
    read_frame,
    word_sum,
)
from boardwright.vendor.axdl_job import NAME_BYTES, Job, is_sparse, prepare
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image

LOADER_BLOCK, IMAGE_BLOCK = 1000, 48000
"""Bytes to the ROM and to the loader at a time, as axdl-rs sends them."""
_TRIES = 3
Step = Callable[[int, int], None]
Steps = Callable[[str], Step]
"""Gives what is told of the progress of a phase: bytes done, bytes in all."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for the ROM's first word, between two calls to it, for an answer, for flash to be written."""

    handshake: float = 10.0
    again: float = 1.0
    answer: float = 5.0
    flash: float = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """``images``: their names, in order; ``sent``: bytes of them; ``again``: images begun a second time."""

    images: tuple[str, ...]
    sent: int
    seconds: float
    again: int
    table_sent: bool


def connect(where: str = "", wait: float = 10.0) -> Port:
    """The cable to a board in download mode: USB, or a serial port by path or pyserial URL.

    ``wait``: seconds in which a board may appear on USB. Raises ``HostError``.
    """
    if where:
        return SerialPort(where)
    from boardwright.vendor.axdl_usb import UsbPort

    return UsbPort(wait)


def download(
    port: Port,
    package: Package,
    *,
    progress: Steps = lambda _: lambda *_: None,
    only: Collection[str] | None = None,
    table: bool | None = None,
    patience: Patience = Patience(),
) -> Done:
    """Write a package, verified first, to the board at ``port``, whose ROM waits for it.

    ``only``: images by name (default: all of type CODE). ``table``: send the partition table (default: when
    ``only`` is not given). Raises ``InputError`` and ``IntegrityError`` before a byte is sent, ``AxdlError``
    (a ``HostError``) when board or cable fail, ``Refused`` (a ``ProductError``) when the loader says no.
    """
    return send(port, prepare(package, only=only, table=table), progress=progress, patience=patience)


def send(
    port: Port,
    job: Job,
    *,
    progress: Steps = lambda _: lambda *_: None,
    patience: Patience = Patience(),
) -> Done:
    """Do a prepared job. Raises as :func:`download` does."""
    begun = time.monotonic()
    link = _Link(port, patience)
    link.find_rom()
    for number, (image, greeting) in enumerate(job.loaders):
        link.load(
            job.package, image, wide=number > 0, greeting=greeting, step=progress(f"loading {image.name}")
        )
    if job.table is not None:
        link.ask("the partition table", Command.REPARTITION, job.table)
    again = sum(link.write(job.package, image, progress(f"writing {image.name}")) for image in job.images)
    sent = sum(job.package.member(image.file or "").size for image in job.images)
    names = tuple(image.name for image in job.images)
    return Done(names, sent, time.monotonic() - begun, again, job.table is not None)


class _Link:
    """The conversation. Every error says what was under way."""

    def __init__(self, port: Port, patience: Patience) -> None:
        self._port, self._patience = port, patience
        self._decoder = Decoder()
        self._phase = "the handshake"

    def find_rom(self) -> None:
        """Call until the ROM answers; it may have been switched on after us."""
        end = time.monotonic() + self._patience.handshake
        while True:
            self._write(READY)
            frame = self._read(min(self._patience.again, max(end - time.monotonic(), 0.01)))
            if frame is not None:
                return self._check_greeting(frame, "romcode")
            if time.monotonic() >= end:
                raise NoAnswer(
                    f"no answer from the board's ROM in {self._patience.handshake:g} s",
                    hint="hold BOOT and tap RST: the ROM waits for some 10 s. Is it the right port?",
                )

    def load(self, package: Package, image: Image, *, wide: bool, greeting: str, step: Step) -> None:
        """A loader into RAM, and run it; ``wide``: 64-bit addresses."""
        assert image.file is not None
        self._phase = f"loading {image.name}"
        size = package.member(image.file).size
        self.ask(self._phase, Command.CONNECT)
        self.ask(self._phase, Command.START, struct.pack("<2Q" if wide else "<2I", image.base, size))
        for done, block in _blocks(package, image.file, LOADER_BLOCK):
            # Whether a ROM knows sums of blocks is not known; axdl-rs sends none.
            self.ask(self._phase, Command.DATA, struct.pack("<3I", len(block), 0, 0))
            self._write(block)
            self._acknowledged(self._patience.answer)
            step(done, size)
        self.ask(self._phase, Command.END)
        self._phase = f"starting {image.name}"
        self.ask(self._phase, Command.EXEC)
        if greeting:
            # Once: a UART loader takes three bytes, and what comes after them for a frame.
            self._write(READY)
            if (frame := self._read(self._patience.answer)) is None:
                raise NoAnswer(f"{image.name} was started and does not greet", hint=AGAIN)
            self._check_greeting(frame, greeting)

    def write(self, package: Package, image: Image, step: Step) -> int:
        """An image into its partition; returns how often it was begun again."""
        for tried in range(_TRIES):
            if self._written(package, image, step):
                return tried
        raise AxdlError(f"writing {image.name}: blocks came to the board changed, {_TRIES} times", hint=AGAIN)

    def _written(self, package: Package, image: Image, step: Step) -> bool:
        assert image.file is not None
        assert image.block is not None
        self._phase = f"writing {image.name}"
        size, can_repeat = package.member(image.file).size, not is_sparse(package, image)
        name = image.block.encode("utf-16-le")
        self.ask(self._phase, Command.START, struct.pack(f"<{NAME_BYTES}sQ8x", name, size))
        for done, block in _blocks(package, image.file, IMAGE_BLOCK):
            self._phase = f"writing {image.name}, byte {done - len(block)} of {size}"
            self.ask(self._phase, Command.DATA, struct.pack("<3I", len(block), 1, word_sum(block)))
            self._write(block)
            try:
                self._acknowledged(self._patience.flash)
            except Refused as refusal:
                if refusal.code != Reply.CHECKSUM:
                    raise
                if not can_repeat:
                    raise AxdlError(
                        f"{self._phase}: the block came to the board changed, and a sparse image cannot "
                        "be begun again",
                        hint=f"the partition is half written. {AGAIN}",
                    ) from refusal
                self._acknowledged(self._patience.answer)
                return False
            step(done, size)
        self._phase = f"finishing {image.name}"
        self.ask(self._phase, Command.END, seconds=self._patience.flash)
        return True

    def ask(self, phase: str, command: Command, data: bytes = b"", seconds: float | None = None) -> None:
        """A command that is answered with ACK."""
        self._phase = phase
        self._write(encode(Frame(command, data)))
        self._acknowledged(seconds or self._patience.answer)

    def _acknowledged(self, seconds: float) -> None:
        frame = self._read(seconds)
        while frame is not None and frame.code == Reply.VERSION:
            frame = self._read(seconds)  # a second answer to the calls of find_rom
        if frame is None:
            raise NoAnswer(f"{self._phase}: no answer in {seconds:g} s", hint=AGAIN)
        if frame.code != Reply.ACK:
            raise Refused(f"{self._phase}: expected ACK, the board answered {frame.reply}", frame.code)

    def _check_greeting(self, frame: Frame, wanted: str) -> None:
        text = frame.data.decode("ascii", "replace")
        if frame.code != Reply.VERSION or wanted not in text:
            raise WrongStage(
                f"{self._phase}: expected {wanted!r}, the board answered {frame.reply} {text[:40]!r}",
                hint=AGAIN,
            )

    def _write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except ConsoleLost as error:
            raise self._vanished(error) from error

    def _read(self, seconds: float) -> Frame | None:
        try:
            return read_frame(self._port, self._decoder, seconds)
        except BrokenFrame as error:
            raise BrokenFrame(f"{self._phase}: {error.message}", hint=AGAIN) from error
        except (ConsoleLost, Gap) as error:
            raise self._vanished(error) from error

    def _vanished(self, error: Exception) -> AxdlError:
        return AxdlError(f"{self._phase}: the board went away: {error.args[0]}", hint=AGAIN)


def _blocks(package: Package, name: str, size: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of a member, with the bytes done after each."""
    done = 0
    with package.open(name) as stream:
        while block := stream.read(size):
            while len(block) < size and (more := stream.read(size - len(block))):
                block += more
            done += len(block)
            yield done, block
