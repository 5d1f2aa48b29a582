"""The journal: what has been done, in a file on the stick, one record a line, each under a CRC.

A record is appended and synced before what it promises is relied upon. A power cut can leave the last line
torn; it is cut off. A damaged line with sound ones behind it is no power cut, and nothing goes on from it.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from .medium import Medium
from .parts import Refused

NAME = "journal"
Record = dict[str, Any]


class Journal:
    """Open on a medium. ``records``: those that were there, and those added."""

    def __init__(self, medium: Medium, name: str = NAME) -> None:
        self._medium, self._name = medium, name
        self.records, self._end = _read(medium.read_all(name), name)

    def add(self, record: Record) -> None:
        """Durable when this returns."""
        line = _line(record)
        self._medium.append_file(self._name, self._end, line)
        self._medium.sync_file(self._name)
        self._end += len(line)
        self.records.append(record)

    def begin_anew(self, record: Record) -> None:
        """Forget everything but ``record``: atomic, as a file is put in the old one's place."""
        self._medium.replace_file(self._name, _line(record))
        self.records, self._end = [record], len(_line(record))


def _line(record: Record) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return b"%08x " % zlib.crc32(text) + text + b"\n"


def _read(data: bytes, name: str) -> tuple[list[Record], int]:
    records: list[Record] = []
    end = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not _sound(line) or number == len(lines):
            later = [at for at, other in enumerate(lines[number:], start=number + 1) if _sound(other)]
            if later:
                raise Refused(
                    f"{name}: record {number} is damaged while record {later[0]} is sound; a power cut "
                    "does not do "
                    "that, the stick does",
                    hint="do not go on; the copies on the stick and the journal itself tell what was done",
                )
            break
        records.append(json.loads(line[9:]))
        end += len(line) + 1
    return records, end


def _sound(line: bytes) -> bool:
    return len(line) > 9 and line[8:9] == b" " and line[:8] == b"%08x" % zlib.crc32(line[9:])
