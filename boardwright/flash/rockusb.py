"""A Rockchip board's eMMC over USB, by Debian's ``rkdeveloptool``, as a medium like any other.

What the program prints and how it ends (0, or 1 with a few words on stdout) is that of its ``main.cpp`` at
commit 46bb4c0, which is Debian's. A board in maskrom mode runs only what the boot ROM loads, so the loader
(``db``) comes first; one in loader mode reads and writes blocks at once. Blocks are sectors of 512 bytes.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import HostError, InputError

PROGRAM = "rkdeveloptool"
SECTOR = 512
MASKROM, LOADER = "Maskrom", "Loader"
_SECONDS = 120.0
_APPEARS = 15.0
"""Seconds that a board may take to come back on USB with its loader."""
_TURN = 4 * 2**20
_DEVICE = re.compile(r"DevNo=\d+\tVid=0x([0-9a-f]+),Pid=0x([0-9a-f]+),LocationID=([0-9a-f]+)\t(\w+)")
_SECTORS = re.compile(r"Flash Size: (-?\d+) Sectors")
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MAGIC = {b"\x3a\xff\x26\xed": "an Android sparse image", b"UBI#": "a UBI image"}
"""``wl`` takes a file that begins with one of these apart instead of writing it."""


@dataclass(frozen=True, slots=True)
class Board:
    """A board in one of Rockchip's USB modes. ``location``: bus and port, as the program says them."""

    vendor: str
    product: str
    location: str
    mode: str

    def __str__(self) -> str:
        return f"{self.vendor}:{self.product} at {self.location}, {self.mode.lower()} mode"


_MEANINGS = (
    ("Did not find any rockusb device", errno.ENODEV, "the board is no longer on USB"),
    ("Found too many rockusb devices", errno.ENODEV, "a second board in a USB mode appeared"),
    ("reating comm object failed", errno.EACCES, "the board's USB interface could not be opened"),
    ("Creating Comm Object failed", errno.EACCES, "the board's USB interface could not be opened"),
    ("Write LBA failed, err=", errno.EIO, "rkdeveloptool cannot read the file it was given"),
    ("Read LBA failed, err=", errno.EIO, "rkdeveloptool cannot write its file"),
    ("Write LBA failed!", errno.EIO, "the board did not write the blocks (rkdeveloptool: Write LBA failed)"),
    ("Read LBA failed!", errno.EIO, "the board did not read the blocks (rkdeveloptool: Read LBA failed)"),
    ("The device does not support this operation", errno.EIO, "the board is in the other USB mode"),
)
_ACCESS = "needs root or a udev rule for USB vendor 2207; and no other program may hold the board"
_STORAGE = (
    "is the eMMC module seated, and the loader one for this board and its DRAM? In loader mode it may be "
    "too old: enter maskrom mode and give --loader"
)


def run(*words: str) -> str:
    """What a command prints, without the terminal's codes. Raises ``OSError`` with what its failure means."""
    try:
        done = subprocess.run(
            [PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_SECONDS, check=False, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise HostError(f"{PROGRAM} is not installed", hint=f"apt install {PROGRAM}") from None
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, f"{PROGRAM} {words[0]} did not end in {_SECONDS:.0f} s") from None
    text = _TERMINAL.sub("", done.stdout.decode(errors="replace")).replace("\r", "")
    if done.returncode:
        for said, number, meaning in _MEANINGS:
            if said in text:
                raise OSError(number, meaning)
        last = text.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise OSError(errno.EIO, f"rkdeveloptool {words[0]}: {last[0]}")
    return text


def boards() -> list[Board]:
    """The boards in a USB mode; ``ld`` ends with 1 when there is none."""
    try:
        return [Board(*found.groups()) for found in _DEVICE.finditer(run("ld"))]
    except OSError as error:
        if "not found any devices" in str(error.strerror):
            return []
        raise HostError(f"rockusb: {error.strerror}") from error


def the_board(location: str = "") -> Board:
    """The only one, as rkdeveloptool cannot choose; ``location``: where it must be. Raises ``InputError``."""
    found = boards()
    if not found:
        raise InputError(
            "--to rockusb: no board in a Rockchip USB mode",
            hint="hold the maskrom or recovery button while the board gets power, its OTG port on this "
            "host; lsusb then shows 2207:",
        )
    if len(found) > 1:
        raise InputError(
            f"--to rockusb: expected one board, found {len(found)}: {'; '.join(map(str, found))}",
            hint="unplug the others: rkdeveloptool cannot choose",
        )
    if location and found[0].location != location:
        raise InputError(f"--to rockusb: expected a board at {location}, found {found[0]}")
    return found[0]


def opened(board: Board, loader: Path | None, image_size: int, say: Callable[[str], object]) -> Rockusb:
    """The board's storage, with a loader running.

    Raises ``InputError`` without a loader and when the storage is too small, and ``HostError``.
    """
    size = _size()
    if size is None and board.mode == MASKROM:
        _load(board, loader, say)
        size = _size_within(_APPEARS)
    if size is None:
        raise HostError(f"the board ({board}) shows no storage", hint=_STORAGE)
    if size < image_size:
        raise InputError(f"the board's storage is too small: {size} bytes, the image has {image_size}")
    return Rockusb(size)


def _load(board: Board, loader: Path | None, say: Callable[[str], object]) -> None:
    if loader is None:
        raise InputError(
            f"the board ({board}) needs a loader before its storage can be reached",
            hint="--loader FILE: the vendor's for this chip, such as rkbin's rk3588_spl_loader_v1.16.113.bin",
        )
    if not loader.is_file():
        raise InputError(f"--loader: there is no file {loader}")
    say(f"maskrom mode: loading {loader.name}")
    try:
        run("db", str(loader.resolve()))
    except OSError as error:
        text = str(error.strerror)
        if "Opening loader failed" in text:
            raise InputError(
                f"--loader: {loader} is no Rockchip loader",
                hint="expected what rkbin's boot_merger makes; idbloader.img and u-boot.itb are none",
            ) from error
        hint = (
            _ACCESS
            if error.errno == errno.EACCES
            else "is it the loader of this chip? Enter maskrom mode anew"
        )
        raise HostError(f"the loader did not start: {text}", hint=hint) from error


def _size() -> int | None:
    """Bytes of the storage; None when nothing answers that knows one."""
    try:
        found = _SECTORS.search(run("rfi"))
    except OSError as error:
        if error.errno == errno.EACCES:
            raise HostError(f"rockusb: {error.strerror}", hint=_ACCESS) from error
        return None
    # Printed as a signed number of 32 bits.
    return (int(found[1]) % 2**32) * SECTOR or None if found else None


def _size_within(seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while (size := _size()) is None and time.monotonic() < end:
        time.sleep(0.5)
    return size


class Rockusb:
    """A ``Medium``. The program takes files, so each turn is one in a private directory, after the other."""

    part = _TURN
    """A turn starts a program and opens the USB device, so it moves more than a read of a disk."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._directory = tempfile.TemporaryDirectory(prefix="bw-rockusb-")
        self._file = Path(self._directory.name) / "blocks"
        self._lock = threading.Lock()

    def write(self, offset: int, data: memoryview) -> None:
        """A last sector that is short is filled with zeros, as the program does."""
        if (kind := _MAGIC.get(bytes(data[:4]))) is not None:
            raise OSError(errno.EINVAL, f"the blocks begin as {kind} does, which rkdeveloptool would unpack")
        with self._lock:
            self._file.write_bytes(data)
            run("wl", str(_sector(offset)), str(self._file))

    def zero(self, start: int, end: int) -> None:
        for position in range(start, end, _TURN):
            self.write(position, memoryview(bytes(min(_TURN, end - position))))

    def read(self, offset: int, into: memoryview) -> None:
        with self._lock:
            run("rl", str(_sector(offset)), str(-(-len(into) // SECTOR)), str(self._file))
            # The program does not look whether its file could be written.
            if self._file.stat().st_size < len(into):
                raise OSError(errno.ENOSPC, f"rkdeveloptool left a short file in {self._directory.name}")
            with self._file.open("rb", buffering=0) as file:
                file.readinto(into)

    def sync(self) -> None:
        """A write is done when the board says so; rockusb has no command to flush."""

    def close(self) -> None:
        """After the turn that is under way; none begins any more, as there is no directory."""
        with self._lock:
            self._directory.cleanup()

    def restart(self) -> None:
        """Leave the USB mode. Raises ``OSError``; some loaders do not answer any more, and restart anyhow."""
        run("rd")


def _sector(offset: int) -> int:
    if offset % SECTOR:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return offset // SECTOR
