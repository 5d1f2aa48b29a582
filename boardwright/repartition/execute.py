"""The executor: the plan's operations one after the other, so that any of them may be cut short and done
again.

Every operation can be repeated until its record ``done`` is in the journal, and none begins before. What was
prepared on the stick is only good as long as the board did not run in between: until the guard stands, a
start leads to the board's own system, so an interrupted run begins anew (:func:`resume`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator

from . import ext4
from .journal import Journal, Record
from .medium import CHUNK, Medium
from .parts import Part, Refused, human
from .plan import Operation
from .survey import reader

Say = Callable[[str], None]
Span = ext4.Span

BATCH = 16 * 2**20
"""Bytes of a move between two records of the journal, at most."""
_GAP = 64 * 2**10
_MAKE = (
    "mke2fs -q -F -t ext4 -O ^metadata_csum_seed,^orphan_file "
    "-E lazy_itable_init=0,lazy_journal_init=0,nodiscard"
)
"""Features that a kernel 5.15 and U-Boot 2020.04 read (e2fsprogs 1.47 would add those two)."""
ENVIRONMENTS = ("old", "reordered", "guard", "new")
VERSION = 1


def image(name: str) -> str:
    """The file on the stick with the copy of a partition."""
    return f"{name}.img"


def environment_file(which: str) -> str:
    return f"environment-{which}"


def start(
    medium: Medium, operations: Iterable[Operation], blocks: dict[str, bytes], identity: Record
) -> Journal:
    """Write down what is going to be done; nothing on the device has changed when this returns.

    ``blocks``: U-Boot's environment in its four forms. ``identity``: what tells this device from another.
    """
    for which in ENVIRONMENTS:
        medium.replace_file(environment_file(which), blocks[which])
    plan = [dataclasses.asdict(operation) for operation in operations]
    journal = Journal(medium)
    journal.begin_anew({"plan": plan, "version": VERSION, "device": identity})
    return journal


def pending(medium: Medium) -> Journal | None:
    """The journal of a run that is not finished, if there is one. Raises :class:`Refused` when it is
    damaged."""
    journal = Journal(medium)
    if not journal.records or "finished" in journal.records[-1]:
        return None
    if journal.records[0].get("version") != VERSION:
        raise Refused(f"the journal has version {journal.records[0].get('version')}, expected {VERSION}")
    return journal


def resume(medium: Medium, journal: Journal, identity: Record, say: Say) -> None:
    """Go on with an interrupted run. Raises :class:`Refused` when the device is not the one it began with."""
    began = journal.records[0]["device"]
    if began != identity:
        raise Refused(
            f"the journal is about the device {began}, this is {identity}",
            hint="put the stick into the board it was used with",
        )
    run = Run(medium, journal, say)
    if not run.committed:
        say("the run was cut short before the guard: nothing on the device counts yet, beginning anew")
        journal.begin_anew(journal.records[0])
        run = Run(medium, journal, say)
    run.all()


class Run:
    """One pass over the operations of a journal's plan."""

    def __init__(self, medium: Medium, journal: Journal, say: Say) -> None:
        self._medium, self._journal, self._say = medium, journal, say
        self.operations = [Operation(**fields) for fields in journal.records[0]["plan"]]
        self.done: dict[int, Record] = {r["done"]: r for r in journal.records if "done" in r}
        self._moved: dict[int, int] = {r["op"]: r["moved"] for r in journal.records if "moved" in r}

    @property
    def committed(self) -> bool:
        """Whether the board no longer starts its own old system, so what was prepared still holds."""
        commits = [
            n for n, o in enumerate(self.operations) if o.kind == "environment" and o.name in ("guard", "new")
        ]
        if not commits or commits[0] in self.done:
            return bool(commits)
        if commits[0] > 0 and commits[0] - 1 not in self.done:
            return False
        return self._environment_is(self.operations[commits[0]].name)

    def _environment_is(self, which: str) -> bool:
        block = self._medium.read_all(environment_file(which))
        return self._medium.read(self._environment_at, len(block)) == block

    @property
    def _environment_at(self) -> int:
        return int(self._journal.records[0]["device"]["environment"])

    def all(self) -> None:
        """Do what is not done. Raises :class:`Refused`, and ``OSError`` for what device or stick do not
        take."""
        total = len(self.operations)
        for number, operation in enumerate(self.operations):
            if number in self.done:
                continue
            self._say(
                f"[{number + 1}/{total}] {operation.says}; until it is done the board {operation.state}"
            )
            record = getattr(self, f"_{operation.kind}")(number, operation)
            self._record({"done": number} | (record or {}))
        self._journal.add({"finished": True})

    def _record(self, record: Record) -> None:
        self._journal.add(record)
        if "done" in record:
            self.done[record["done"]] = record

    def _result(self, kind: str, name: str) -> Record:
        """What the operation of this kind left for this partition."""
        for number, operation in enumerate(self.operations):
            if (operation.kind, operation.name) == (kind, name) and number in self.done:
                return self.done[number]
        raise Refused(f"the journal has no record of {kind} {name}")

    # on the stick

    def _backup(self, _: int, operation: Operation) -> Record:
        name, file = operation.name, image(operation.name)
        read = self._from_device(operation)
        spans = _used(read, operation.size)
        self._medium.create_file(file, operation.size)
        first = hashlib.sha256()
        for start_, data in _chunks(read, spans):
            self._medium.write_file(file, start_, data)
            first.update(data)
        self._medium.sync_file(file)
        self._medium.forget(operation.source, operation.size)
        expected = first.hexdigest()
        for what, again in ("the device", read), ("the stick", self._from_file(file)):
            if (found := _digest(again, spans)) != expected:
                raise Refused(
                    f"{name} reads differently a second time from {what}: SHA-256 {found[:16]}, then "
                    f"{expected[:16]}",
                    hint="nothing was changed; is the stick or the eMMC failing?",
                )
        if ext4.superblock(self._from_file(file)) is not None:
            self._check(file, repair=True)
        return self._described(file, operation.size)

    def _resize(self, _: int, operation: Operation) -> Record:
        file = image(operation.name)
        block = self._superblock(file).block_size
        size = operation.size // block * block
        if self._superblock(file).size > size:
            self._medium.tool("resize2fs", "{}", f"{size // 1024}K", name=file)
            self._medium.size_file(file, size)
        else:
            self._medium.size_file(file, size)
            self._medium.tool("resize2fs", "{}", f"{size // 1024}K", name=file)
        self._check(file)
        return self._described(file, size)

    def _make(self, _: int, operation: Operation) -> Record:
        file = image(operation.name)
        size = operation.size // 4096 * 4096
        self._medium.create_file(file, size)
        self._medium.tool(*_MAKE.split(), "-L", operation.name[:16], "{}", name=file)
        self._check(file)
        return self._described(file, size)

    def _check(self, file: str, *, repair: bool = False) -> None:
        """Of a copy, ``repair`` replays its journal and mends what a power cut leaves (e2fsck(8): status
        1)."""
        self._medium.tool(
            "e2fsck", "-f", "-p" if repair else "-n", "{}", name=file, accept=(0, 1) if repair else (0,)
        )

    def _superblock(self, file: str) -> ext4.Superblock:
        found = ext4.superblock(self._from_file(file))
        if found is None:
            raise Refused(f"{file} on the stick holds no file system any more")
        return found

    def _described(self, file: str, size: int) -> Record:
        """Make the file durable, and tell its used bytes by their digest."""
        self._medium.sync_file(file)
        read = self._from_file(file)
        return {"size": size, "sha256": _digest(read, _used(read, size))}

    def _from_device(self, operation: Operation) -> ext4.Read:
        """Reads of the old partition. Raises :class:`Refused` when the file system is another than was
        planned."""
        read = reader(self._medium, Part(operation.name, operation.source, operation.size))
        found = ext4.superblock(read)
        if found is not None and found.size != operation.size:
            raise Refused(
                f"{operation.name} had a file system of {operation.size} bytes when the plan was made "
                "and has one of "
                f"{found.size} now",
                hint="discard the plan and make a new one",
            )
        return read

    def _from_file(self, file: str) -> ext4.Read:
        return lambda offset, length: self._medium.read_file(file, offset, length)

    def _map(self, _: int, operation: Operation) -> Record:
        read = self._from_device(operation)
        text = json.dumps(_used(read, operation.size)).encode()
        self._medium.replace_file(f"{operation.name}.map", text)
        return {"sha256": hashlib.sha256(text).hexdigest()}

    # on the device

    def _environment(self, _: int, operation: Operation) -> None:
        """Sectors that are as they should be are not written: from the guard on, that leaves one."""
        block, at = self._medium.read_all(environment_file(operation.name)), self._environment_at
        self._write_changed(at, block, 512)
        self._medium.sync()
        self._medium.forget(at, len(block))
        if not self._environment_is(operation.name):
            raise Refused(f"the environment at byte {at} does not hold what was written to it")

    def _wipe(self, _: int, operation: Operation) -> None:
        self._medium.write(operation.source, bytes(operation.size))
        self._medium.sync()

    def _restore(self, _: int, operation: Operation) -> None:
        name, file, at = operation.name, image(operation.name), operation.target
        last = [
            k
            for k in ("resize", "make", "backup")
            if any((k, name) == (o.kind, o.name) for o in self.operations)
        ]
        record = self._result(last[0], name)
        size, read = int(record["size"]), self._from_file(file)
        spans = _used(read, size)
        if (found := _digest(read, spans)) != record["sha256"]:
            raise Refused(
                f"{file} on the stick has SHA-256 {found[:16]}, its record says {record['sha256'][:16]}",
                hint="the stick is failing; copy what is on it before anything else",
            )
        for start_, data in _chunks(read, spans):
            self._write_changed(at + start_, data, 4096)
        self._medium.sync()
        self._medium.forget(at, size)
        if (found := _digest(lambda o, n: self._medium.read(at + o, n), spans)) != record["sha256"]:
            raise Refused(
                f"{name} at byte {at} reads back as SHA-256 {found[:16]}, expected {record['sha256'][:16]}"
            )

    def _write_changed(self, at: int, data: bytes, granule: int) -> None:
        """Write the runs of granules that differ from what is there."""
        there = self._medium.read(at, len(data))
        if there == data:
            return
        for start_, end in ext4.merged(
            (o, min(o + granule, len(data)))
            for o in range(0, len(data), granule)
            if there[o : o + granule] != data[o : o + granule]
        ):
            self._medium.write(at + start_, data[start_:end])

    def _move(self, number: int, operation: Operation) -> None:
        text = self._medium.read_all(f"{operation.name}.map")
        if hashlib.sha256(text).hexdigest() != self._result("map", operation.name)["sha256"]:
            raise Refused(f"the map of {operation.name} on the stick is damaged", hint="the stick is failing")
        by = operation.target - operation.source
        batches = list(batched([(s, e) for s, e in json.loads(text)], by))
        digests = {r["moved"]: r["sha256"] for r in self._journal.records if r.get("op") == number}
        for index in range(self._moved.get(number, -1) + 1, len(batches)):
            digest = hashlib.sha256()
            for start_, end in batches[index]:
                data = self._medium.read(operation.source + start_, end - start_)
                self._medium.write(operation.target + start_, data)
                digest.update(data)
            self._medium.sync()
            digests[index] = digest.hexdigest()
            self._record({"op": number, "moved": index, "sha256": digests[index]})
        self._medium.forget(operation.target, operation.size)
        for index, batch in enumerate(batches):
            digest = hashlib.sha256()
            for start_, end in batch:
                digest.update(self._medium.read(operation.target + start_, end - start_))
            if digest.hexdigest() != digests[index]:
                raise Refused(
                    f"{operation.name}: {human(sum(e - s for s, e in batch))} from byte "
                    f"{operation.target + batch[0][0]}"
                    " do not read back as they were written",
                    hint="the eMMC is failing; the old place may still hold them",
                )

    def _grow(self, _: int, __: Operation) -> None:
        """Done by the board's own system, after the reboot."""


def batched(spans: list[Span], by: int, batch: int = BATCH, chunk: int = CHUNK) -> Iterator[list[Span]]:
    """The pieces of a move by ``by`` bytes, in the order that keeps each source until its copy is durable.

    From the end when the move goes up. No piece of a batch is written over the source of a piece of the same
    batch, so a batch that was cut short can be copied again: its pieces lie within ``abs(by)`` bytes.
    """
    chunk = min(chunk, abs(by))
    pieces = [(at, min(at + chunk, end)) for start_, end in spans for at in range(start_, end, chunk)]
    if by > 0:
        pieces.reverse()
    found: list[Span] = []
    for piece in pieces:
        low = min([piece[0], *(s for s, _ in found)])
        high = max([piece[1], *(e for _, e in found)])
        if found and (high - low > abs(by) or sum(e - s for s, e in found) + piece[1] - piece[0] > batch):
            yield found
            found = []
        found.append(piece)
    if found:
        yield found


def _used(read: ext4.Read, size: int) -> list[Span]:
    """Bytes that mean something, small gaps included, so that reads are large."""
    if ext4.superblock(read) is None:
        return [(0, size)]
    return ext4.merged(ext4.used(read), _GAP)


def _chunks(read: ext4.Read, spans: Iterable[Span]) -> Iterator[tuple[int, bytes]]:
    for start_, end in spans:
        for at in range(start_, end, CHUNK):
            length = min(CHUNK, end - at)
            data = read(at, length)
            if len(data) != length:
                raise Refused(f"expected {length} bytes at {at}, found {len(data)}")
            yield at, data


def _digest(read: ext4.Read, spans: Iterable[Span]) -> str:
    digest = hashlib.sha256()
    for _, data in _chunks(read, spans):
        digest.update(data)
    return digest.hexdigest()
