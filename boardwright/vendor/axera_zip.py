"""A ZIP file from anywhere, bounded before it is believed: how many members, what they unpack to, their names
and kinds, and whether they overlap. Nothing is unpacked to memory or disk here; a member is a stream.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from boardwright.errors import HostError, InputError, IntegrityError, Place

PIECE = 2**20
_MEMBERS = 256
_TOTAL = 64 * 2**30
_RATIO, _FREE = 200, 2**26
"""A file may unpack to 64 MiB and 200 times its own size; root file systems reach 3 to 10 times."""
_LARGEST_DIRECTORY = 2**18
_LOCAL_HEADER = 30
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What zipfile raises for a file that is not right."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the archive; sizes in bytes. ``crc``: CRC-32 that the archive records."""

    name: str
    size: int
    compressed: int
    crc: int


class Archive:
    """An opened ZIP file that breaks no rule of this module; a context manager.

    Raises ``InputError`` for one that is none or breaks a rule, ``IntegrityError`` for a damaged one,
    ``HostError`` when it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._place = path, Place(str(path))
        try:
            _check_directory(path, self._place)
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise HostError(f"{path} cannot be read: {error.strerror or error}") from error
        except _DAMAGE as error:
            raise self._damaged(error) from error
        try:
            self.members = tuple(self._checked(self._zip.infolist()))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()

    def member(self, name: str) -> Member:
        """Raises ``InputError`` for an unknown name."""
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self.members)
        raise InputError(f"there is no member {name}", place=self._place, hint=f"there are {names}")

    def pieces(self, name: str) -> Iterator[bytes]:
        """The member's bytes in pieces of 1 MiB at most. Raises ``IntegrityError`` when they are damaged."""
        with self.open(name) as stream:
            while piece := stream.read(PIECE):
                yield piece

    def open(self, name: str) -> Stream:
        """The member as a stream. Raises ``InputError`` for an unknown name."""
        return Stream(self._zip, self.member(name), self._place)

    def read(self, name: str, limit: int) -> bytes:
        """A small member whole. Raises ``InputError`` above ``limit`` bytes."""
        if (size := self.member(name).size) > limit:
            raise InputError(f"{name}: expected {limit} bytes at most, found {size}", place=self._place)
        return b"".join(self.pieces(name))

    def _checked(self, infos: list[zipfile.ZipInfo]) -> Iterator[Member]:
        if len(infos) > _MEMBERS:
            raise self.bad(f"expected {_MEMBERS} members at most, found {len(infos)}")
        size, total = self.path.stat().st_size, sum(info.file_size for info in infos)
        if total > min(_TOTAL, _FREE + _RATIO * size):
            raise self.bad(
                f"the members say that they unpack to {total} bytes from {size}; allowed are "
                f"{_FREE} and {_RATIO} for one, {_TOTAL} at most",
                hint="an image that is mostly zeros belongs in a package as a sparse image",
            )
        seen: dict[str, str] = {}
        for info in infos:
            name = info.orig_filename
            if fault := name_fault(name):
                raise self.bad(f"member {name!r}: {fault}")
            if (other := seen.get(name.casefold())) is not None:
                raise self.bad(f"member {name!r} is there a second time (as {other!r})")
            seen[name.casefold()] = name
            if fault := _kind_fault(info):
                raise self.bad(f"member {name}: {fault}")
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise self.bad(f"member {info.filename} overlaps the one before it")
            end = info.header_offset + _LOCAL_HEADER + info.compress_size
        if end > size:
            raise self.bad(f"the members reach to byte {end}, the file to {size}")
        for info in infos:
            yield Member(info.filename, info.file_size, info.compress_size, info.CRC)

    def bad(self, message: str, hint: str | None = None) -> InputError:
        """An error of this file, to be raised."""
        return InputError(message, place=self._place, hint=hint)

    def _damaged(self, error: Exception) -> InputError | IntegrityError:
        if self.path.stat().st_size and zipfile.is_zipfile(self.path):
            return IntegrityError(f"the file is damaged: {error}", place=self._place)
        return InputError(f"expected a package (ZIP), found none: {error}", place=self._place)


class Stream:
    """A member's bytes, to be read once; a context manager. Ends as long as the package says, or raises."""

    def __init__(self, archive: zipfile.ZipFile, member: Member, place: Place) -> None:
        self._member, self._place, self._left = member, place, member.size
        try:
            self._file: IO[bytes] = archive.open(member.name)
        except (OSError, *_DAMAGE) as error:
            raise self._damaged(error) from error

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = PIECE) -> bytes:
        """Up to ``size`` bytes. Raises ``IntegrityError``, at the end also for a wrong CRC-32."""
        try:
            data = self._file.read(size)
        except (OSError, *_DAMAGE) as error:
            raise self._damaged(error) from error
        self._left -= len(data)
        if self._left < 0 or (size and not data and self._left):
            raise self._damaged(f"expected {self._member.size} bytes, found {self._member.size - self._left}")
        return data

    def drain(self) -> None:
        """Read to the end, for its CRC-32."""
        while self.read():
            pass

    def _damaged(self, why: object) -> IntegrityError:
        return IntegrityError(f"member {self._member.name} is damaged: {why}", place=self._place)


def name_fault(name: str) -> str | None:
    """What is wrong with a member's name, if anything is."""
    if not name or not name.isprintable() or "\\" in name or ":" in name:
        return "expected a plain relative name"
    if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        return "its path leaves the package, is absolute, or is a directory"
    if len(name) > 200 or name.count("/") > 3:
        return "its path is too long"
    return None


def _kind_fault(info: zipfile.ZipInfo) -> str | None:
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "expected a plain file, found a link or another kind"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"expected it stored or deflated, found method {info.compress_type}"
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        return "it is stored, and yet has two sizes"
    return None


def _check_directory(path: Path, place: Place) -> None:
    """The central directory must be small before zipfile reads it whole (APPNOTE.TXT 4.3.14 to 4.3.16)."""
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not path.is_dir():
            raise InputError("expected a plain file, found a device or a pipe", place=place)
        end = file.seek(0, 2)
        file.seek(max(0, end - 65557))
        tail = file.read()
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < 22:
            return  # zipfile says so better
        (size,) = struct.unpack_from("<I", tail, at + 12)
        if size == 0xFFFFFFFF and at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":
            (record,) = struct.unpack_from("<Q", tail, at - 12)
            file.seek(min(record, end))
            record64 = file.read(56)
            size = struct.unpack_from("<Q", record64, 40)[0] if len(record64) == 56 else 0
    if size > _LARGEST_DIRECTORY:
        raise InputError(
            f"expected a directory of {_LARGEST_DIRECTORY} bytes at most, found {size}", place=place
        )
