"""Reading the partition table of an image file: UEFI 2.10 section 5.3, sectors of 512 bytes."""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import Place, ProductError

SECTOR = 512
_HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")
_ENTRY = struct.Struct("<16s16sQQQ72s")


@dataclass(frozen=True, slots=True)
class Partition:
    """``offset`` and ``size`` in bytes; ``guid`` as Linux writes a PARTUUID."""

    number: int
    name: str
    guid: str
    offset: int
    size: int


def read(image: Path) -> list[Partition]:
    """The used entries of the primary table. Raises ``ProductError`` when there is no sound one."""
    with image.open("rb") as file:
        file.seek(SECTOR)
        raw = file.read(SECTOR)
        if len(raw) < SECTOR or raw[:8] != b"EFI PART":
            raise _unsound(image, "no GPT signature in sector 1")
        fields = _HEADER.unpack_from(raw)
        length, sum_, (where, count, size, entries_sum) = fields[2], fields[3], fields[10:14]
        if not _HEADER.size <= length <= SECTOR or not _ENTRY.size <= size <= 4096 or count > 1024:
            raise _unsound(image, "the header's own sizes are not possible")
        if zlib.crc32(raw[:16] + bytes(4) + raw[20:length]) != sum_:
            raise _unsound(image, "the header's checksum is wrong")
        file.seek(where * SECTOR)
        table = file.read(count * size)
    if zlib.crc32(table) != entries_sum:
        raise _unsound(image, "the checksum of the entries is wrong")
    entries = (_ENTRY.unpack_from(table, index * size) for index in range(count))
    return [
        Partition(number, name.decode("utf-16-le").rstrip("\0"), str(uuid.UUID(bytes_le=guid)),
                  first * SECTOR, (last + 1 - first) * SECTOR)
        for number, (kind, guid, first, last, _, name) in enumerate(entries, start=1)
        if any(kind)
    ]  # fmt: skip


def _unsound(image: Path, what: str) -> ProductError:
    return ProductError(
        f"expected a disk image with a GPT, found {what}",
        place=Place(str(image)),
        hint="build the image again",
    )
