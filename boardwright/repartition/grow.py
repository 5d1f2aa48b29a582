"""``python3 -m repartition.grow DISK PARTITION``: the stick's only partition, in use, to the end of the
stick.

The partition's entry in the MBR is one field of the disk's first sector; the running kernel is told by an
ioctl.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
from pathlib import Path

_SECTORS_AT = 446 + 12
_BLKPG, _RESIZE = 0x1269, 3
"""Kernel ``include/uapi/linux/blkpg.h``."""


def main(disk: str, partition: str) -> int:
    sectors = int((Path("/sys/class/block") / Path(disk).name / "size").read_text())
    first = int((Path("/sys/class/block") / Path(partition).name / "start").read_text())
    fd = os.open(disk, os.O_RDWR)
    try:
        head = bytearray(os.pread(fd, 512, 0))
        (start, had) = struct.unpack_from("<II", head, _SECTORS_AT - 4)
        if head[510:] != b"\x55\xaa" or start != first:
            print(f"{disk} has no MBR whose first partition begins at sector {first}")
            return 1
        if had >= sectors - first:
            return 0
        struct.pack_into("<I", head, _SECTORS_AT, min(sectors - first, 2**32 - 1))
        os.pwrite(fd, bytes(head), 0)
        os.fsync(fd)
        _tell_the_kernel(fd, first * 512, (sectors - first) * 512)
    finally:
        os.close(fd)
    return 0


def _tell_the_kernel(fd: int, start: int, length: int) -> None:
    entry = ctypes.create_string_buffer(struct.pack("<qqi64s64s", start, length, 1, b"", b""), 152)
    fcntl.ioctl(fd, _BLKPG, struct.pack("iiiP", _RESIZE, 0, 152, ctypes.addressof(entry)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
