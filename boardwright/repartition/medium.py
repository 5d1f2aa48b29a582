"""The device and the stick: the one place where bytes are read and written. Tests put a faulty one in its
place.

Only this class writes to the device once a plan is made (before: settle.py). Programs (e2fsck, resize2fs,
mke2fs) get files on the stick.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .parts import Refused

CHUNK = 4 * 2**20
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Medium:
    """``device``: a block device or a file. ``stick``: a directory on another file system."""

    def __init__(self, device: Path, stick: Path) -> None:
        self.device, self.stick = device, stick
        try:
            block = stat.S_ISBLK(device.stat().st_mode)
            # O_EXCL on a block device: not while it, or a partition of it, is mounted (open(2)).
            self._fd = os.open(device, os.O_RDWR | os.O_CLOEXEC | (os.O_EXCL if block else 0))
            stick.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(
                f"{error.filename}: {error.strerror}", hint="is it mounted, or not there?"
            ) from error
        self.size = os.lseek(self._fd, 0, os.SEEK_END)

    def close(self) -> None:
        """Once more is no error."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    # the device

    def read(self, offset: int, length: int) -> bytes:
        """Raises :class:`Refused` when the device ends before."""
        data = _pread(self._fd, offset, length)
        if len(data) < length:
            raise Refused(f"{self.device} ends at byte {offset + len(data)}, expected {offset + length}")
        return data

    def write(self, offset: int, data: bytes) -> None:
        if offset < 0 or offset + len(data) > self.size:
            raise ValueError(f"write of {len(data)} bytes at {offset} leaves the device of {self.size}")
        _pwrite(self._fd, offset, data)

    def sync(self) -> None:
        os.fsync(self._fd)

    def forget(self, offset: int, length: int) -> None:
        """Have the next read of this range come from the device and not from memory. Sync before."""
        os.posix_fadvise(self._fd, offset, length, os.POSIX_FADV_DONTNEED)

    # the stick

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.stick).free

    def path(self, name: str) -> Path:
        return self.stick / name

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def read_all(self, name: str) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return self.path(name).read_bytes()
        return b""

    def create_file(self, name: str, size: int) -> None:
        """An empty, sparse file, in place of what was there."""
        with self._open(name, os.O_CREAT | os.O_TRUNC) as fd:
            os.ftruncate(fd, size)

    def size_file(self, name: str, size: int) -> None:
        with self._open(name) as fd:
            os.ftruncate(fd, size)

    def read_file(self, name: str, offset: int, length: int) -> bytes:
        """Shorter at the end of the file."""
        with self._open(name) as fd:
            return _pread(fd, offset, length)

    def append_file(self, name: str, end: int, data: bytes) -> None:
        """Add to the ``end`` bytes that count; a torn line behind them goes."""
        with self._open(name, os.O_CREAT) as fd:
            os.ftruncate(fd, end)
            _pwrite(fd, end, data)

    def write_file(self, name: str, offset: int, data: bytes) -> None:
        """Write into a file and leave what is behind it."""
        with self._open(name) as fd:
            _pwrite(fd, offset, data)

    def sync_file(self, name: str) -> None:
        """The file and its name are there after a power cut; its next read comes from the stick."""
        with self._open(name) as fd:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self._sync_directory()

    def replace_file(self, name: str, data: bytes) -> None:
        """Atomic: after a power cut the file is the old one or the new one."""
        new = f"{name}.new"
        self.create_file(new, 0)
        self.write_file(new, 0, data)
        self.sync_file(new)
        self.rename_file(new, name)

    def rename_file(self, old: str, name: str) -> None:
        self.path(old).replace(self.path(name))
        self._sync_directory()

    def remove_file(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def tool(self, *words: str, name: str, accept: tuple[int, ...] = (0,)) -> str:
        """Run a program on the file ``name`` of the stick, which is ``{}`` in ``words``; what it printed.

        Raises :class:`Refused` with its last words for another status than those of ``accept``.
        """
        command = [word.replace("{}", str(self.path(name))) for word in words]
        status, output = run(command)
        if status not in accept:
            raise Refused(f"{words[0]} of {name} ended with {status}: {last_words(output)}")
        return output

    # inside

    @contextlib.contextmanager
    def _open(self, name: str, flags: int = 0) -> Iterator[int]:
        fd = os.open(self.path(name), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _sync_directory(self) -> None:
        fd = os.open(self.stick, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def run(command: list[str]) -> tuple[int, str]:
    """Status and output of one of the e2fsprogs. Raises :class:`Refused` when it is not there."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", check=False, env=_ENVIRONMENT,
        )  # fmt: skip
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}", hint="install e2fsprogs") from error
    return done.returncode, done.stdout


def last_words(output: str) -> str:
    """The last three lines of a program's output, as one."""
    return " / ".join(output.strip().splitlines()[-3:])


def _pread(fd: int, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    while 0 < len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _pwrite(fd: int, offset: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)
