"""Debian packages as files: ar archives of ``debian-binary``, ``control.tar.*``, ``data.tar.*``; deb(5)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO

from boardwright.errors import IntegrityError

_MAGIC = b"!<arch>\n"


def control(file: Path) -> str:
    """The control fields. Raises ``IntegrityError`` when the file is no package."""
    done = subprocess.run(
        ["dpkg-deb", "--field", file], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise IntegrityError(f"{file} is no Debian package: {done.stderr.strip()}")
    return done.stdout


def uncompressed(file: Path, made: Path) -> None:
    """The same package with its data stored plainly.

    dpkg of another architecture runs emulated; this takes the decompression out of the emulator. What dpkg
    installs and records is the same.
    """
    with (
        tempfile.TemporaryFile(dir=made.parent) as data,
        file.open("rb") as source,
        made.open("wb") as target,
    ):
        subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", file], stdout=data, stdin=subprocess.DEVNULL, check=True
        )
        size = data.tell()
        data.seek(0)
        target.write(_MAGIC)
        for name, content in _small_members(source):
            target.write(_header(name, len(content)) + content + b"\n" * (len(content) % 2))
        target.write(_header("data.tar", size))
        shutil.copyfileobj(data, target, 1 << 20)
        target.write(b"\n" * (size % 2))


def _small_members(source: BinaryIO) -> list[tuple[str, bytes]]:
    """The members before ``data.tar``: ar(5), 60 bytes of header, content at even offsets."""
    found: list[tuple[str, bytes]] = []
    if source.read(len(_MAGIC)) != _MAGIC:
        raise IntegrityError(f"{source.name} is no ar archive")
    while header := source.read(60):
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        if name.startswith("data.tar"):
            break
        found.append((name, source.read(size)))
        source.read(size % 2)
    return found


def _header(name: str, size: int) -> bytes:
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode()
