"""Small files over the console, in chunks, each with a digest; what has arrived once is not sent again.

The console carries little: good for a driver's firmware or a test program, not for a root file system.
The board needs ``base64``, ``dd`` and ``sha256sum`` (coreutils or BusyBox).
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Callable

from boardwright.console.console import Console
from boardwright.errors import InputError, ProductError

CHUNK = 900
"""Bytes: 1200 characters of base64, well below a terminal's line."""
_CAREFUL_CHUNK = 60
MOST = 4 * 2**20

Progress = Callable[[int, int], None]


def push(console: Console, data: bytes, path: str, progress: Progress = lambda done, of: None) -> None:
    """Write ``data`` to ``path`` on the board; goes on where an earlier, broken transfer of it stopped.

    Raises ``ValueError`` for more than :data:`MOST` bytes, ``InputError`` when ``path`` is a directory there,
    ``ProductError`` when the board cannot write it.
    """
    if len(data) > MOST:
        raise ValueError(f"expected at most {MOST} bytes for the console, found {len(data)}")
    part = shlex.quote(f"{path}.part")
    if console.run(f"[ -d {shlex.quote(path)} ]").status == 0:  # mv would put the part into it
        raise InputError(f"{path} is a directory on the board", hint="name the file in it")
    done = _resume(console, data, part)
    while done < len(data):
        size = _CAREFUL_CHUNK if console.careful else CHUNK
        chunk = base64.b64encode(data[done : done + size]).decode()
        put = f"printf %s {chunk}|base64 -d|dd of={part} bs=1 seek={done} conv=notrunc 2>/dev/null"
        if console.run(put, 60.0).status != 0:
            raise ProductError(
                f"the board did not write byte {done} and what follows of {path}",
                hint="is the file system full?",
            )
        done = min(done + size, len(data))
        progress(done, len(data))
    if _sum(console, part, len(data)) != hashlib.sha256(data).hexdigest():
        raise ProductError(f"{path} did not arrive as it was sent", hint="is the file system full?")
    _must(console, f"mv {part} {shlex.quote(path)}")


def pull(console: Console, path: str, progress: Progress = lambda done, of: None) -> bytes:
    """The bytes of a file on the board. Raises ``ProductError`` when there is none."""
    name = shlex.quote(path)
    size = int(_must(console, f"wc -c <{name}"))
    if size > MOST:
        raise ProductError(f"{path} has {size} bytes; the console is for {MOST} at most")
    data = b""
    while len(data) < size:
        step = _CAREFUL_CHUNK if console.careful else CHUNK
        text = _must(console, f"tail -c +{len(data) + 1} {name}|head -c {step}|base64")
        data += base64.b64decode(text)
        progress(len(data), size)
    if _sum(console, name, size) != hashlib.sha256(data).hexdigest():
        raise ProductError(f"{path} changed while it was read")
    return data


def _resume(console: Console, data: bytes, part: str) -> int:
    """How much of ``data`` an earlier transfer left, proven by its digest; else nothing is there."""
    there = console.run(f"wc -c <{part}")
    size = int(there.output) if there.status == 0 and there.line.isdigit() else 0
    if 0 < size <= len(data) and _sum(console, part, size) == hashlib.sha256(data[:size]).hexdigest():
        return size
    made = console.run(f"rm -f {part}; : >{part}")
    if made.status != 0:
        raise ProductError(f"the board cannot write {part}: {made.line[:200]}")
    return 0


def _sum(console: Console, name: str, size: int) -> str:
    return _must(console, f"head -c {size} {name}|sha256sum|cut -c1-64", 120).strip()


def _must(console: Console, command: str, timeout: float = 60.0) -> str:
    result = console.run(command, timeout)
    if result.status != 0:
        raise ProductError(f"{command[:60]!r} ended with {result.status}: {result.line[:200]}")
    return result.output
