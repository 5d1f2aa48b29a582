"""The plan: from what is on the device and what is wanted to an ordered list of operations. Pure.

One rule makes it safe: **no program but ours writes to the device.** File systems are copied to the stick,
resized and checked there as files, and copied back; only pure moves, when the stick has no room, go from
place to place on the device, in windows that never overlap their own source. The order is

1. on the stick only: copies, verified, resized, checked. The board boots as before.
2. copies into space that no old partition has. The board still boots as before.
3. the guard: one sector of U-Boot's environment, after which a start leads to the rescue system.
4. moves and copies over old data. A start leads to the rescue system, which goes on from its journal.
5. the environment: the same sector again. The board boots as planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .parts import Part, Refused, human, overlap

BEFORE, RESUMES, PLANNED = "boots as before", "resumes from its journal", "boots as planned"

WHERE_U_BOOT_LOOKS = ("uboot", "uboot_bk", "env")
"""The ROM and U-Boot find these by their offset, not by name (SDK: AX650_pipro_box_defconfig)."""
WHAT_BOOTS_THE_STICK = ("dtb", "kernel", "atf", "optee")
"""U-Boot reads these from the eMMC to start anything, the rescue system too
(``cmd/axera/boot/axera_boot.c``)."""
SMALLEST_MOVE = 4096
_WORTH_GROWING = 2**20
_STICK_SLACK = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Held:
    """An old partition. ``extent``: bytes from its start that mean something; ``used``: those to copy."""

    part: Part
    filesystem: str
    """``ext4``, ``raw`` (bytes of unknown meaning) or ``empty``."""
    extent: int
    used: int
    clean: bool = True
    """Whether its bitmaps can be trusted; else all of it counts as used."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A new partition. ``format``: make an empty ext4 in it, whatever an old one of its name held."""

    part: Part
    format: bool = False


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes a second. Defaults: an eMMC 5.1 at HS400 and a USB 2.0 stick, both on the careful side."""

    device_read: float = 120e6
    device_write: float = 50e6
    stick_read: float = 25e6
    stick_write: float = 12e6


@dataclass(frozen=True, slots=True)
class Request:
    """``delete``: old partitions that may be lost. ``stick``: free bytes there."""

    device_size: int
    held: tuple[Held, ...]
    wanted: tuple[Wanted, ...]
    delete: frozenset[str] = frozenset()
    stick: int = 0
    atomic: bool = True
    """Whether the forms of the environment differ in one sector only."""
    reworded: bool = False
    """Whether the bootargs change in more than the layout: another ``root=`` or ``mem=``."""
    rates: Rates = field(default_factory=Rates)


@dataclass(frozen=True, slots=True)
class Operation:
    """One step. ``state``: what a start of the board does at any moment of it, until it is done."""

    kind: str
    name: str
    state: str
    says: str
    source: int = 0
    target: int = 0
    size: int = 0
    """Bytes to copy, or the size wanted."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``warnings``: what cannot be promised, said before anything is done."""

    operations: tuple[Operation, ...]
    stick: int
    """Bytes it takes on the stick at most."""
    warnings: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return sum(operation.seconds for operation in self.operations)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds}


def make(request: Request) -> Plan:
    """The plan. Raises :class:`~.parts.Refused`, naming the number that is wrong."""
    _check(request)
    changes = [change for wanted in request.wanted if (change := _change(request, wanted)) is not None]
    changes = _ways(request, changes)
    return _ordered(request, changes)


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one partition. ``way``: ``stick``, ``in place`` or ``online`` (grown after the
    reboot)."""

    held: Held | None
    wanted: Wanted
    resize: bool
    required: bool
    """Whether it can only be done on the stick."""
    way: str = ""

    @property
    def name(self) -> str:
        return self.wanted.part.name

    @property
    def moves(self) -> bool:
        return self.held is not None and self.held.part.offset != self.wanted.part.offset

    @property
    def stays(self) -> bool:
        """Whether only the file system is to grow, in a partition that is as it should be."""
        return self.held is not None and self.held.part == self.wanted.part

    @property
    def grows(self) -> bool:
        return self.resize and self.held is not None and self.wanted.part.size > self.held.extent

    @property
    def cost(self) -> int:
        """Bytes on the stick at most: what is used, tables of inodes of a larger file system, and slack."""
        size = self.wanted.part.size
        tables = size // 32 if self.resize or self.held is None else 0
        return (self.held.used if self.held else 0) + tables + _STICK_SLACK

    @property
    def source(self) -> tuple[int, int]:
        assert self.held is not None
        return self.held.part.offset, self.held.part.offset + self.held.extent

    @property
    def target(self) -> tuple[int, int]:
        """The bytes written: a file system that was moved in place keeps its size until it is grown."""
        start, size = self.wanted.part.offset, self.wanted.part.size
        if self.held is not None and not (self.resize and self.way == "stick"):
            size = self.held.extent
        return start, start + size


def _check(request: Request) -> None:
    old = {held.part.name: held for held in request.held}
    new = {wanted.part.name: wanted for wanted in request.wanted}
    for held in request.held:
        name = held.part.name
        if name not in new:
            if name not in request.delete and held.filesystem != "empty":
                raise Refused(
                    f"{name} ({human(held.used)} in use) is not in the new layout",
                    hint=f"keep it, or say that it may be lost: --delete {name}",
                )
            if name in (*WHERE_U_BOOT_LOOKS, *WHAT_BOOTS_THE_STICK):
                raise Refused(f"{name} cannot be deleted: the board does not start without it")
            continue
        _check_fixed(held.part, new[name].part)
        if new[name].format and name not in request.delete and held.used and held.filesystem != "empty":
            raise Refused(
                f"{name} is to be formatted and has {human(held.used)} in use",
                hint=f"say that it may be lost: --delete {name}",
            )
        if not new[name].format:
            _check_content(held, new[name].part)
    _check_numbers(request)
    for wanted in request.wanted:
        if wanted.part.end > request.device_size:
            raise Refused(
                f"{wanted.part.name} would end at byte {wanted.part.end}, "
                f"{wanted.part.end - request.device_size} behind the end of the device "
                f"({request.device_size})"
            )
        if wanted.part.name not in old and wanted.part.size < 2**20 and wanted.format:
            raise Refused(f"{wanted.part.name} has {human(wanted.part.size)}, an ext4 needs 1 MiB at least")


def _check_fixed(old: Part, new: Part) -> None:
    if old.name in WHERE_U_BOOT_LOOKS and old != new:
        what, before, after = (
            ("begins at byte", old.offset, new.offset)
            if old.offset != new.offset
            else ("has", old.size, new.size)
        )
        raise Refused(
            f"{old.name} {what} {before} and would get {after}, but the ROM and U-Boot look for it by number"
        )
    if old.name in WHAT_BOOTS_THE_STICK and old.offset != new.offset:
        raise Refused(
            f"{old.name} begins at byte {old.offset} and would begin at {new.offset}, but it must stay: "
            "until the "
            "environment is written U-Boot starts the rescue system with it",
            hint="leave the partitions before it as they are",
        )


def _check_content(held: Held, new: Part) -> None:
    if held.filesystem == "ext4" and held.used > new.size:
        raise Refused(
            f"{new.name} has {human(held.used)} in use and would get {human(new.size)}: "
            f"{human(held.used - new.size)} too few",
            hint="delete files there, or make it larger"
            if held.clean
            else "it was not unmounted in order, so all of it counts: start the board, shut it down in order",
        )
    if held.filesystem == "raw" and held.extent > new.size:
        raise Refused(
            f"{new.name} holds bytes of unknown meaning and has {held.extent} of them; {new.size} would "
            "cut off "
            f"{held.extent - new.size}",
            hint=f"keep its size, or say that its content may be lost: --format {new.name} --delete "
            f"{new.name}",
        )
    if held.part.offset != new.offset and abs(held.part.offset - new.offset) < SMALLEST_MOVE:
        raise Refused(
            f"{new.name} would move by {abs(held.part.offset - new.offset)} bytes; "
            f"{SMALLEST_MOVE} at least, or not at all"
        )


def _check_numbers(request: Request) -> None:
    """Numbers are places in the list, and the root's /etc/fstab names them (mmcblk0p11)."""
    before = {held.part.name: number for number, held in enumerate(request.held, start=1)}
    for number, wanted in enumerate(request.wanted, start=1):
        name = wanted.part.name
        if before.get(name, number) != number and not wanted.format:
            raise Refused(
                f"{name} is partition {before[name]} and would become {number}; root= and /etc/fstab "
                "name numbers",
                hint="keep the order, and put new partitions at the end",
            )


def _change(request: Request, wanted: Wanted) -> Change | None:
    held = next((held for held in request.held if held.part.name == wanted.part.name), None)
    if wanted.format:
        return Change(None, wanted, resize=False, required=True)
    if held is None or held.filesystem == "empty":
        return None
    # At the same size, too: what an earlier run left to be grown after the reboot, and never was.
    larger = wanted.part.size >= held.part.size and wanted.part.size - held.extent >= _WORTH_GROWING
    resize = held.filesystem == "ext4" and (larger or held.extent > wanted.part.size)
    change = Change(held, wanted, resize, required=held.extent > wanted.part.size)
    return change if change.moves or change.resize else None


def _ways(request: Request, changes: Sequence[Change]) -> list[Change]:
    """Choose the stick for what needs it, then for as much as fits, the smallest first: the backup."""
    ways = {change.name: "stick" for change in changes if change.required}
    room = request.stick
    for change in changes:
        if change.required:
            room -= change.cost
    if room < 0:
        names = ", ".join(f"{c.name} {human(c.cost)}" for c in changes if c.required)
        raise Refused(
            f"the stick has {human(request.stick)} free and the plan needs {human(request.stick - room)} "
            f"({names}), {human(-room)} more",
            hint="take a larger stick, or back up and delete files first",
        )
    for change in sorted((c for c in changes if not c.required), key=lambda c: (c.cost, c.name)):
        if change.cost <= room and not change.stays:
            ways[change.name], room = "stick", room - change.cost
        else:
            ways[change.name] = "in place" if change.moves else "online"
    chosen = [_with(change, ways[change.name]) for change in changes]
    return _without_cycles(chosen, room)


def _with(change: Change, way: str) -> Change:
    return Change(change.held, change.wanted, change.resize, change.required, way)


def _without_cycles(changes: list[Change], room: int) -> list[Change]:
    """Moves that wait for each other cannot all go in place: one of them goes over the stick."""
    while (ring := _move_order(changes)[1]) and (smallest := min(ring, key=lambda c: c.cost)):
        if smallest.cost > room:
            raise Refused(
                f"{' and '.join(c.name for c in ring)} stand in each other's way, and {smallest.name} needs "
                f"{human(smallest.cost)} on the stick, which has {human(max(0, room))} left",
                hint="take a larger stick, or change the layout in two steps",
            )
        room -= smallest.cost
        changes = [_with(c, "stick") if c is smallest else c for c in changes]
    return changes


def _move_order(changes: Iterable[Change]) -> tuple[list[Change], list[Change]]:
    """Moves in place, each after those whose data lie where it goes; and those that wait for each other."""
    left = [c for c in changes if c.way == "in place"]
    order: list[Change] = []
    while left:
        free = [c for c in left if not any(o is not c and overlap(c.target, o.source) for o in left)]
        if not free:
            return order, left
        order.append(free[0])
        left.remove(free[0])
    return order, []


def _ordered(request: Request, changes: Sequence[Change]) -> Plan:
    rates = request.rates
    old = [(held.part.offset, held.part.end) for held in request.held]
    over_stick = [c for c in changes if c.way == "stick"]
    moves, _ = _move_order(changes)
    prepared = [operation for change in over_stick for operation in _prepared(change, rates)]
    prepared += [
        Operation("map", c.name, BEFORE, f"note which blocks of {c.name} are used", c.held.part.offset,
                  size=c.held.extent)
        for c in moves if c.held
    ]  # fmt: skip

    def is_early(change: Change) -> bool:
        return not any(overlap(change.target, span) for span in old)

    early = [c for c in moves if is_early(c)]
    # A copy must wait for moves whose data lie where it goes; into free space it need not.
    first = [c for c in over_stick if is_early(c)]
    late_moves = [c for c in moves if c not in early]
    late = [c for c in over_stick if c not in first]
    guarded = bool(late_moves or late)
    operations = list(prepared)
    operations += [_moved(c, BEFORE, rates) for c in early]
    operations += [_restored(c, BEFORE, rates) for c in first]
    layout = [held.part for held in request.held] != [wanted.part for wanted in request.wanted]
    changed = layout or request.reworded
    torn = [] if request.atomic else [
        "the environment's old and new form differ in more than one sector: a power cut in the "
        "milliseconds of "
        "writing it makes U-Boot use its compiled-in layout; the rescue stick then has to be started by hand"
    ]  # fmt: skip
    if changed or guarded:
        operations.append(
            _environment("reordered", BEFORE, "put the bootargs of U-Boot's environment in front")
        )
        torn.insert(
            0,
            "the environment is first rewritten with equal variables in another order, 128 KiB: a "
            "power cut in "
            "these milliseconds makes U-Boot use its compiled-in bootargs; no data is touched yet",
        )
    if guarded:
        operations.append(_environment("guard", BEFORE, "have a start lead to the rescue stick (one sector)"))
        # Before anything is put where these lay: their data are elsewhere by now.
        operations += [_wiped(c) for c in (*early, *first, *late) if c.moves]
        for change in late_moves:
            operations.append(_moved(change, RESUMES, rates))
            if not overlap(change.target, (change.source[0], change.source[0] + SMALLEST_MOVE)):
                operations.append(_wiped(change))
        operations += [_restored(c, RESUMES, rates) for c in late]
    if changed or guarded:
        state = RESUMES if guarded else BEFORE
        operations.append(_environment("new", state, "write the new layout (one sector); the last write"))
    grown = [c for c in changes if c.grows and c.way != "stick"]
    operations += [
        Operation("grow", c.name, PLANNED,
                  f"grow {c.name} to {human(c.wanted.part.size)} after the reboot, mounted, by its own "
                  "journal",
                  target=c.wanted.part.offset, size=c.wanted.part.size)
        for c in grown
    ]  # fmt: skip
    return Plan(
        tuple(operations),
        sum(c.cost for c in over_stick),
        (*torn, *_single_copies(late_moves), *_unclean(changes)),
    )


def _single_copies(moves: Sequence[Change]) -> list[str]:
    if not moves:
        return []
    names = ", ".join(f"{c.name} ({human(c.held.used)})" for c in moves if c.held)
    return [
        f"{names}: the stick has no room for a copy, so they are moved in place; power cuts are survived, a "
        "failing eMMC or stick is not. Back them up first, or take a larger stick"
    ]


def _unclean(changes: Sequence[Change]) -> list[str]:
    return [
        f"{c.name} was not unmounted in order, so all of its {human(c.held.used)} count; before a real run "
        "its journal is replayed"
        for c in changes
        if c.held and not c.held.clean
    ]


def _prepared(change: Change, rates: Rates) -> list[Operation]:
    name, held, size = change.name, change.held, change.wanted.part.size
    if held is None:
        return [
            Operation("make", name, BEFORE, f"make an empty ext4 of {human(size)} on the stick", size=size)
        ]
    seconds = held.used / min(rates.device_read, rates.stick_write)
    verify = held.used / min(rates.device_read, rates.stick_read)
    says = f"copy {human(held.used)} of {name} to the stick, read both again and compare"
    start = held.part.offset
    found = [Operation("backup", name, BEFORE, says, start, size=held.extent, seconds=seconds + verify)]
    if change.resize:
        verb = "grow" if change.grows else "shrink"
        found.append(
            Operation("resize", name, BEFORE, f"{verb} the copy of {name} from {human(held.extent)} to "
                      f"{human(size)} and check it", size=size, seconds=5 + held.used / rates.stick_read / 4)
        )  # fmt: skip
    return found


def _restored(change: Change, state: str, rates: Rates) -> Operation:
    used = change.held.used if change.held else change.wanted.part.size // 64
    # Blocks that are there already are read, not written: a file system that only grows is hardly written to.
    writes = used if change.moves or change.held is None else used // 20
    seconds = used / rates.stick_read + writes / rates.device_write + used / rates.device_read
    target, size = change.target[0], change.wanted.part.size
    says = f"copy {change.name} to byte {target} and verify it"
    return Operation("restore", change.name, state, says, target=target, size=size, seconds=seconds)


def _moved(change: Change, state: str, rates: Rates) -> Operation:
    assert change.held is not None
    used, (start, end), target = change.held.used, change.source, change.target[0]
    seconds = used / rates.device_read + used / rates.device_write + used / rates.device_read
    return Operation("move", change.name, state,
                     f"move {human(used)} of {change.name} in place, {human(abs(target - start))} "
                     f"{'up' if target > start else 'down'}, and verify it",
                     start, target, end - start, seconds)  # fmt: skip


def _wiped(change: Change) -> Operation:
    start, end = change.source
    size = min(SMALLEST_MOVE, end - start)
    return Operation(
        "wipe", change.name, RESUMES, f"clear the old superblock of {change.name}", start, size=size
    )


def _environment(name: str, state: str, says: str) -> Operation:
    return Operation("environment", name, state, says, size=0x20000)
