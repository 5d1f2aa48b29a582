"""A device and a stick that lose power at any write, and keep of what was not synced what an adversary likes.

Sectors of 512 bytes are whole or not written; between two syncs they reach the medium in any order, or not
at all. Files on the stick: what was synced is there; of the rest, any mixture of old and new sectors. A
rename is there or not. A program (resize2fs) that is cut short leaves a file with anything in it.
"""

from __future__ import annotations

import collections
import hashlib
import random
from pathlib import Path

from boardwright.repartition.medium import Medium
from boardwright.repartition.parts import Refused

SECTOR = 512
LOST, KEPT, MIXED = "lost", "kept", "mixed"
"""Nothing unsynced is there; all is, the last write half; any sectors are."""
_tools: collections.OrderedDict[tuple[tuple[str, ...], str], tuple[str, bytes]] = collections.OrderedDict()
_REMEMBERED = 12
"""Results kept, of some 20 MiB each: one run has fewer."""


class PowerCut(BaseException):
    """Not an Exception: nothing may catch it."""


class ToolRefused(AssertionError):
    """A program did not take its file."""


class Fragile(Medium):
    """``fuse``: the event at which power goes; ``None``: never. ``events``: how many there were."""

    def __init__(self, device: Path, stick: Path, fuse: int | None, adversary: str, seed: int = 0) -> None:
        super().__init__(device, stick)
        self.events, self._fuse, self._adversary = 0, fuse, adversary
        self._chance = random.Random(f"{seed} {fuse} {adversary}")
        self._pending: list[tuple[int, bytes, bytes]] = []
        self._durable: dict[str, bytes | None] = {}
        self.log: list[str] = []

    def _event(self, what: str) -> bool:
        """Count one; true when it is the last."""
        self.events += 1
        self.log.append(what)
        return self._fuse is not None and self.events > self._fuse

    # the device

    def write(self, offset: int, data: bytes) -> None:
        assert offset % SECTOR == 0
        assert len(data) % SECTOR == 0
        self._pending.append((offset, self.read(offset, len(data)), data))
        super().write(offset, data)
        if self._event(f"write {offset} {len(data)}"):
            self._cut()

    def sync(self) -> None:
        if self._event("sync"):
            self._cut()
        self._pending.clear()

    def forget(self, offset: int, length: int) -> None:  # noqa: ARG002
        assert not self._pending, "reading back what was not synced proves nothing"

    # the stick

    def _touch(self, name: str) -> None:
        if name not in self._durable:
            self._durable[name] = self.read_all(name) if self.exists(name) else None

    def create_file(self, name: str, size: int) -> None:
        self._touch(name)
        super().create_file(name, size)
        if self._event(f"create {name}"):
            self._cut()

    def size_file(self, name: str, size: int) -> None:
        self._touch(name)
        super().size_file(name, size)

    def append_file(self, name: str, end: int, data: bytes) -> None:
        self._touch(name)
        super().append_file(name, end, data)
        if self._event(f"append {name}"):
            self._cut()

    def write_file(self, name: str, offset: int, data: bytes) -> None:
        self._touch(name)
        super().write_file(name, offset, data)
        if self._event(f"write {name}"):
            self._cut()

    def sync_file(self, name: str) -> None:
        if self._event(f"sync {name}"):
            self._cut()
        self._durable.pop(name, None)

    def rename_file(self, old: str, name: str) -> None:
        assert old not in self._durable, f"{old} takes the place of {name} before it is synced"
        if self._event(f"rename {name}") and self._adversary == LOST:
            self._cut()
        self.path(old).replace(self.path(name))
        self._durable.pop(name, None)
        if self._fuse is not None and self.events > self._fuse:
            self._cut()

    def tool(self, *words: str, name: str, accept: tuple[int, ...] = (0,)) -> str:
        """A program on equal bytes gives equal bytes: run once, then remembered."""
        if words[0] != "e2fsck" or "-n" not in words:
            self._touch(name)
            if self._event(f"tool {words[0]} {name}"):
                with self.path(name).open("r+b") as file:
                    for _ in range(20):
                        file.seek(self._chance.randrange(max(1, self.path(name).stat().st_size)))
                        file.write(self._chance.randbytes(3000))
                self._cut()
        key = words, hashlib.sha256(self.read_all(name)).hexdigest()
        if key not in _tools:
            try:
                said = super().tool(*words, name=name, accept=accept)
            except Refused as refused:
                raise ToolRefused(refused.message) from refused
            _tools[key] = said, self.read_all(name)
            if len(_tools) > _REMEMBERED:
                _tools.popitem(last=False)
        _tools.move_to_end(key)
        said, data = _tools[key]
        self.path(name).write_bytes(data)
        return said

    # the cut

    def _cut(self) -> None:
        if self._adversary != KEPT:
            for offset, old, _ in reversed(self._pending):
                super().write(offset, old)
        if self._adversary == MIXED:
            for offset, _, new in self._pending:
                for at in range(0, len(new), SECTOR):
                    if self._chance.random() < 0.5:
                        super().write(offset + at, new[at : at + SECTOR])
        if self._adversary == KEPT and self._pending:
            offset, old, _ = self._pending[-1]
            half = len(old) // SECTOR // 2 * SECTOR
            super().write(offset + half, old[half:])
        for name, durable in self._durable.items():
            self._settle(name, durable)
        raise PowerCut

    def _settle(self, name: str, durable: bytes | None) -> None:
        path = self.path(name)
        now = path.read_bytes()
        if self._adversary == LOST:
            if durable is None:
                path.unlink()
            else:
                path.write_bytes(durable)
        elif self._adversary == MIXED:
            old = (durable or b"").ljust(len(now), b"\0")
            # A file grows by what reached the medium; a journal's torn line may end anywhere.
            end = self._chance.randint(min(len(durable or b""), len(now)), len(now))
            mixed = b"".join(
                (now if self._chance.random() < 0.5 else old)[at : at + SECTOR]
                for at in range(0, len(now), SECTOR)
            )
            path.write_bytes(mixed[:end])
