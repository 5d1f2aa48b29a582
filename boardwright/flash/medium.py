"""The one file that is open for writing: a disk nobody else has, or a plain file."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from boardwright.errors import HostError, InputError
from boardwright.flash import devices
from boardwright.flash.choose import Choice
from boardwright.flash.devices import Device

# include/uapi/linux/fs.h
_BLKZEROOUT = 0x127F
_BLKRRPART = 0x125F
_BLKGETSIZE64 = 0x80081272
_BLKGETDISKSEQ = 0x80081280
# include/uapi/linux/falloc.h
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
ALIGNMENT = 4096
"""What O_DIRECT asks for at most on the disks an image is written to: one logical block (open(2))."""
_ZEROS = 2**20


class Medium(Protocol):
    """Bytes at offsets. Everything raises ``OSError``."""

    @property
    def size(self) -> int: ...
    @property
    def part(self) -> int:
        """How many bytes are best read at once."""
        ...

    def write(self, offset: int, data: memoryview) -> None: ...
    def zero(self, start: int, end: int) -> None: ...
    def read(self, offset: int, into: memoryview) -> None: ...
    def sync(self) -> None: ...


@runtime_checkable
class Digesting(Protocol):
    """A medium far away, which tells digests rather than bytes."""

    def digests(self, spans: Sequence[tuple[int, int]]) -> Iterable[str | OSError]:
        """SHA-256 of each span, from the medium itself, or why it could not be read."""
        ...


@runtime_checkable
class Forgetting(Protocol):
    """A medium that can let go of bytes."""

    def forget(self, start: int, end: int) -> bool:
        """Whether they are zeros now, at no cost; where that is not to be had, they stay as they are."""
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """What an open descriptor says of its disk; ``diskseq`` empty where the kernel does not tell."""

    number: str
    size: int
    diskseq: str


class Opened:
    """A ``Medium`` by descriptor, without the page cache as long as the file system allows it."""

    part = 2**20

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self.block = stat.S_ISBLK(os.fstat(descriptor).st_mode)
        self._zeros = memoryview(mmap.mmap(-1, _ZEROS))
        self._direct(True)

    def write(self, offset: int, data: memoryview) -> None:
        while data:
            count = self._unless_unaligned(self._put, data, offset)
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            offset, data = offset + count, data[count:]

    def zero(self, start: int, end: int) -> None:
        """Zeros, by the disk itself if it can."""
        if self.block and not (start | end) % 512:
            try:
                fcntl.ioctl(self.descriptor, _BLKZEROOUT, struct.pack("QQ", start, end - start))
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY):
                    raise
        for position in range(start, end, _ZEROS):
            self.write(position, self._zeros[: min(_ZEROS, end - position)])

    def forget(self, start: int, end: int) -> bool:
        """Discarded where the kernel vouches for zeros afterwards (fallocate(2); block/fops.c).

        Otherwise nothing is done: a bare discard leaves the contents open, and writing zeros costs what the
        map was to save.
        """
        return not _fallocate(self.descriptor, _PUNCH_HOLE | _KEEP_SIZE, start, end - start)

    def read(self, offset: int, into: memoryview) -> None:
        """From the medium, not from what the kernel remembers of what was written."""
        if not self._is_direct:
            os.posix_fadvise(self.descriptor, offset, len(into), os.POSIX_FADV_DONTNEED)
        while into:
            count = self._unless_unaligned(self._get, into, offset)
            if not count:
                raise OSError(errno.ENODATA, f"it ends at byte {offset}")
            offset, into = offset + count, into[count:]

    def sync(self) -> None:
        os.fdatasync(self.descriptor)
        self._direct(True)

    def close(self) -> None:
        """Let the kernel see the new partitions, and everybody else the disk."""
        try:
            if self.block:
                fcntl.ioctl(self.descriptor, _BLKRRPART)
        except OSError:
            pass  # seen when it is plugged in again
        finally:
            # A call that is still under way must never reach a file that gets this number next.
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def _put(self, data: memoryview, offset: int) -> int:
        return os.pwrite(self.descriptor, data, offset)

    def _get(self, into: memoryview, offset: int) -> int:
        return os.preadv(self.descriptor, [into], offset)

    def _unless_unaligned(self, call: Callable[[memoryview, int], int], data: memoryview, offset: int) -> int:
        """The last block of an image may be short, and some file systems know no O_DIRECT at all."""
        direct = self._is_direct
        if direct and (offset | len(data)) % ALIGNMENT:
            self.sync()
            self._direct(False)
        try:
            return call(data, offset)
        except OSError as error:
            if error.errno != errno.EINVAL or not direct:
                raise
        self._direct(False)
        return call(data, offset)

    def _direct(self, wanted: bool) -> None:
        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        try:
            new = flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, new)
            self._is_direct = wanted
        except OSError:  # tmpfs before kernel 6.6
            self._is_direct = False


_fallocate = ctypes.CDLL(None).fallocate64
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def probe(descriptor: int) -> Probe:
    """Raises ``OSError``."""
    state = os.fstat(descriptor)
    size = struct.unpack("Q", fcntl.ioctl(descriptor, _BLKGETSIZE64, bytes(8)))[0]
    try:
        diskseq = str(struct.unpack("Q", fcntl.ioctl(descriptor, _BLKGETDISKSEQ, bytes(8)))[0])
    except OSError:
        diskseq = ""
    return Probe(f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}", size, diskseq)


def open_file(path: Path, size: int) -> Opened:
    """A plain file of at least ``size`` bytes. Raises ``HostError``."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise HostError(f"{path} cannot be opened for writing: {error.strerror}") from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise InputError(f"{path} is no plain file any more; nothing was written")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if state.st_size < size:
            os.ftruncate(descriptor, size)
        return Opened(descriptor, max(size, state.st_size))
    except OSError as error:
        os.close(descriptor)
        if error.errno == errno.EWOULDBLOCK:
            raise InputError(f"{path} is being flashed by another run") from error
        raise HostError(f"{path}: {error.strerror}") from error
    except BaseException:
        os.close(descriptor)
        raise


def open_device(
    device: Device,
    root: Path = Path("/"),
    path: Path | None = None,
    ask: Callable[[int], Probe] = probe,
) -> Opened:
    """The disk that was confirmed, and no other. Tests give ``path``, ``root`` and ``ask``.

    O_EXCL keeps every mount, swap and volume of any namespace away (open(2)). Raises ``InputError`` when
    it is in use or another disk now, ``HostError`` when it cannot be opened.
    """
    path = path or device.path
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _not_opened(path, error) from error
    try:
        _check_same(device, ask(descriptor), root)
        return Opened(descriptor, device.size)
    except OSError as error:
        os.close(descriptor)
        raise HostError(f"{path} does not answer: {error.strerror}") from error
    except BaseException:
        os.close(descriptor)
        raise


def _check_same(device: Device, opened: Probe, root: Path) -> None:
    now = [d for d in devices.found(root) if d.name == device.name]
    for what, expected, found in (
        ("number", device.number, opened.number),
        ("size", device.size, opened.size),
        ("diskseq", device.diskseq, opened.diskseq or device.diskseq),
        ("serial number", device.serial, now[0].serial if now else "none"),
        ("identity", device.identity, now[0].identity if now else None),
    ):
        if expected != found:
            raise InputError(
                f"{device.path} is another disk than the one confirmed: "
                f"expected {what} {expected}, found {found}; nothing was written",
                hint="flash again, and look at what is asked",
            )
    if now[0].refusals:
        raise InputError(f"{device.path} came into use: {'; '.join(now[0].refusals)}; nothing was written")


def _not_opened(path: Path, error: OSError) -> HostError | InputError:
    if error.errno == errno.EBUSY:
        return InputError(f"{path} is in use by another program or mount", hint="lsof and lsblk show by whom")
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM):
        hint = "writing disks needs root, the group disk, or a udev rule for the reader"
    return HostError(f"{path} cannot be opened for writing: {error.strerror}", hint=hint)


def open_choice(choice: Choice, size: int) -> Opened:
    return open_device(choice.device) if choice.device else open_file(choice.path, size)
