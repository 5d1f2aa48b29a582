"""A disk of another machine, written over a shell there: a running board's, or a lab's host's.

That machine needs ``dd``, ``sha256sum``, ``sync`` and a shell (coreutils or BusyBox). Every block is on the
disk, and its digest made from the disk there, before a range counts as written. ``dd`` cannot open a disk
exclusively, so what is in use is told by that machine's ``/proc`` and ``/sys``, before and after the
confirmation.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from boardwright.errors import BoardwrightError, HostError, InputError, ProductError
from boardwright.flash import devices
from boardwright.flash.choose import described
from boardwright.flash.devices import Device

_GRAIN = 4096
_SECONDS = 600.0
"""For one piece or range; a worn eMMC stalls for minutes."""
_FILES = (
    "dev size ro removable diskseq device/model device/name device/serial device/type serial "
    "loop/backing_file dm/uuid dm/name"
)
_SYSFS = (
    f"cd /sys/block;for d in *;do [ $(cat $d/size) = 0 ]&&continue;for f in {_FILES};do "
    "[ -r $d/$f ]&&echo \"$d/$f=$(tr -d '\\0' <$d/$f)\";done;"
    "for p in $d $d/$d*;do [ -d $p ]||continue;[ $p = $d ]||for f in dev size partition ro;do "
    '[ -r $p/$f ]&&echo "$p/$f=$(cat $p/$f)";done;for h in $p/holders/* $p/slaves/*;do [ -e $h ]&&echo "$h@";'
    "done;done;done;:"
)
_UDEV = "cd /run/udev/data 2>/dev/null&&grep -E '^E:(ID_(FS_|PART_|BUS|SERIAL_SHORT))' b* /dev/null;:"


class Answer(Protocol):
    """What a command printed, both streams, its last line, and its exit status."""

    @property
    def output(self) -> str: ...
    @property
    def line(self) -> str: ...
    @property
    def status(self) -> int: ...


class Shell(Protocol):
    """A shell on the other machine: a console, or ssh. Called by one thread at a time."""

    def run(self, command: str, timeout: float = 30.0) -> Answer:
        """``timeout`` in seconds. Raises ``BoardwrightError`` when there is no answer to be had."""
        ...


class Carrier(Protocol):
    """Brings bytes to the other machine."""

    @property
    def most(self) -> int:
        """How many bytes go at once."""
        ...

    def command(self, data: memoryview) -> str:
        """What is run there to have ``data`` on the standard output. Raises ``OSError``."""
        ...


class BoardDisk:
    """A ``Medium`` that tells digests. ``path`` is the other machine's."""

    part = 4 * 2**20

    def __init__(self, shell: Shell, device: Device, carrier: Carrier) -> None:
        self._shell, self._carrier = shell, carrier
        self._lock = threading.Lock()
        self.size, self.path = device.size, str(device.path)

    def write(self, offset: int, data: memoryview) -> None:
        """As many bytes as were sent must have come: a cut transfer is an error at once."""
        most = self._carrier.most
        for start in range(0, len(data), most):
            self._write(offset + start, data[start : start + most])

    def _write(self, offset: int, data: memoryview) -> None:
        block = _block(offset)
        disk = f"dd of={self.path} bs={block} seek={offset // block} conv=notrunc,fsync iflag=fullblock"
        with self._lock:
            said = self._run(f"{self._carrier.command(data)}|{disk} 2>&1")
        if not re.search(rf"(?m)^{len(data)} bytes", said):
            last = said.strip().splitlines()[-1:] or ["nothing"]
            raise OSError(errno.EIO, f"expected {len(data)} bytes to arrive there, it said: {last[0][:200]}")

    def zero(self, start: int, end: int) -> None:
        block = _block(start | end)
        where = f"bs={block} seek={start // block} count={(end - start) // block}"
        with self._lock:
            self._run(f"dd if=/dev/zero of={self.path} {where} conv=notrunc,fsync 2>&1")

    def read(self, offset: int, into: memoryview) -> None:
        raise OSError(errno.EOPNOTSUPP, f"{len(into)} bytes at {offset}: a disk far away is compared there")

    def digests(self, spans: Sequence[tuple[int, int]]) -> Iterator[str | OSError]:
        """From the disk, as nothing of it is left in that machine's memory."""
        forget = (
            f"sync&&echo 3 >/proc/sys/vm/drop_caches&&{{ blockdev --flushbufs {self.path} 2>/dev/null||:; }}"
        )
        try:
            with self._lock:
                self._run(forget)
        except OSError as error:
            yield from [error for _ in spans]
            return
        for start, end in spans:
            try:
                with self._lock:
                    digest = self._digest(start, end)
                yield digest
            except OSError as error:
                yield error

    def _digest(self, start: int, end: int) -> str:
        blocks = -(-(end - start) // _GRAIN)
        read = f"dd if={self.path} bs={_GRAIN} skip={start // _GRAIN} count={blocks} 2>/dev/null"
        said = self._run(f"{read}|head -c {end - start}|sha256sum")
        return said.split(" ")[0].strip()

    def sync(self) -> None:
        with self._lock:
            self._run("sync")

    def close(self) -> None:
        """Let it see the new partitions, unless a write is under way, as after Ctrl-C."""
        if self._lock.acquire(blocking=False):
            try:
                self._run(f"blockdev --rereadpt {self.path} 2>/dev/null||:")
            except (OSError, BoardwrightError):
                pass  # seen when it starts again
            finally:
                self._lock.release()

    def _run(self, command: str) -> str:
        done = self._shell.run(command, _SECONDS)
        if done.status:
            last = done.output.strip().splitlines()[-1:] or [f"status {done.status}"]
            raise OSError(errno.EIO, f"on the other machine: {last[0][:200]}")
        return done.output


def _block(offset: int) -> int:
    block = _GRAIN if offset % _GRAIN == 0 else devices.SECTOR
    if offset % block:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return block


def disks(shell: Shell, needed: int = 0) -> list[Device]:
    """The other machine's disks, by the rules for this host's: what it runs from or mounts is refused."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        _rebuild(root, _said(shell, _SYSFS))
        for name in ("self/mountinfo", "swaps"):
            path = root / "proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_said(shell, f"cat /proc/{name}"))
        _udev(root, _said(shell, _UDEV))
        return devices.found(root, needed)


def the_disk(name: str, found: Sequence[Device]) -> Device:
    """By path, name or serial number. Raises ``InputError`` for none, and one that is not written to."""
    short = name.removeprefix("/dev/")
    for device in found:
        if device.name == short or (device.serial and device.serial == name):
            if device.refusals:
                raise InputError(f"{described(device)} there is not written to: {'; '.join(device.refusals)}")
            return device
    names = ", ".join(f"{d.name} ({d.size / 1e9:.1f} GB{', refused' if d.refusals else ''})" for d in found)
    raise InputError(f"there is no disk {name} there", hint=f"there are {names or 'none'}")


def still(shell: Shell, device: Device) -> None:
    """Raises ``InputError`` when it is another disk than the one confirmed, or in use now."""
    now = next((d for d in disks(shell, 0) if d.name == device.name), None)
    if now is None or now.identity != device.identity:
        raise InputError(f"{device.path} there is another disk than the one confirmed; nothing was written")
    if now.refusals:
        raise InputError(f"{device.path} there came into use: {'; '.join(now.refusals)}; nothing was written")


def _said(shell: Shell, command: str) -> str:
    done = shell.run(command, 60)
    if done.status:
        raise HostError(f"it could not be told which disks there are: {done.line[:200]}")
    return done.output


def _rebuild(root: Path, text: str) -> None:
    """The files of /sys/block that decide, as ``devices.found`` reads them; ``@`` ends a link."""
    block = root / "sys/block"
    numbers = root / "sys/dev/block"
    for made in (block, numbers):
        made.mkdir(parents=True)
    links = []
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if ".." in name or name.startswith("/"):
            raise ProductError(f"it tells of a disk {shlex.quote(name)}")
        if not equals:
            links.append(name.removesuffix("@"))
            continue
        path = block / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
        if path.name == "dev" and re.fullmatch(r"\d+:\d+", value) and not (numbers / value).is_symlink():
            (numbers / value).symlink_to(path.parent)
    for link in links:
        path = block / link
        path.parent.mkdir(parents=True, exist_ok=True)
        held = [d for d in (block / path.name, *block.glob(f"*/{path.name}")) if d.is_dir()]
        path.symlink_to(held[0] if held else block / path.name)


def _udev(root: Path, text: str) -> None:
    """``b8:0:E:KEY=value``, as grep names its files."""
    data = root / "run/udev/data"
    data.mkdir(parents=True)
    for line in text.splitlines():
        if match := re.match(r"(b\d+:\d+):(E:.*)", line):
            with (data / match[1]).open("a") as file:
                file.write(match[2] + "\n")
