"""Whether everything that knows the layout says the same: each consumer is read back from what is stored.

The readers share nothing with what wrote: they see text and bytes, as U-Boot, the kernel, fw_setenv and the
flash loader do. Every finding names the consumer, what it says, and what the layout says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from boardwright.errors import BoardwrightError, InputError
from boardwright.layout import blkdevparts, bootargs, loadscript
from boardwright.layout import split as splits
from boardwright.layout.consumers import NO_UPDATE, Consumers
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Split
from boardwright.vendor import axera_xml, uboot_env

_UPDATE = re.compile(r"(?P<name>.+)\.(?P<suffix>bin|img)")


def check(found: Consumers, table: Table, split: Split | None) -> None:
    """Raises ``InputError`` with everything that disagrees."""
    disagreements = faults(found, table, split)
    if disagreements:
        raise InputError("; ".join(disagreements), hint="make all of them from the same board file again")


def faults(found: Consumers, table: Table, split: Split | None) -> list[str]:
    """Every disagreement of ``found`` with the layout, in words."""
    said: list[str] = []
    for name, judged in (
        ("bootargs", _bootargs(found.bootargs, table, split)),
        ("environment", _environment(found.environment, table, split)),
        ("fstab", _fstab(found.fstab, table)),
        ("fw_env.config", _fw_env(found.fw_env, table)),
        ("axp", _axp(found.axp, table)),
        ("updates", _updates(found.updates, table)),
        ("load script", _script(found.load_script, split)),
    ):
        try:
            said += [f"{name}: {words}" for words in judged]
        except BoardwrightError as error:
            said.append(f"{name}: {error.message}")
    return said


def _bootargs(text: str | None, table: Table, split: Split | None) -> Iterator[str]:
    if text is None:
        return
    device, entries = blkdevparts.parse(bootargs.value(text, "blkdevparts"))
    if device != table.device:
        yield f"blkdevparts is for {device}, expected {table.device}"
    yield from _entries([(entry.name, entry.size) for entry in entries], table)
    expected = table.path(table.holding("rootfs"))
    if (root := bootargs.value(text, "root")) != expected:
        yield f"root={root}, expected {expected}"
    if split is not None and (linux := splits.parse_mem(bootargs.value(text, "mem"))) != split.linux:
        yield f"mem= gives Linux {linux} bytes, expected {split.linux}"


def _environment(block: bytes | None, table: Table, split: Split | None) -> Iterator[str]:
    if block is None:
        return
    variables = uboot_env.parse(block).variables
    if "bootargs" not in variables:
        yield "expected a variable bootargs, found none: U-Boot would take its compiled-in layout"
        return
    room = table.holding("env").size
    if len(block) > room:
        yield f"the block has {len(block)} bytes, its partition {room}"
    yield from _bootargs(variables["bootargs"], table, split)


def _entries(found: list[tuple[str, int | None]], table: Table) -> Iterator[str]:
    """Names, sizes and so offsets; None is what is left of the device."""
    if len(found) != len(table.partitions):
        yield f"{len(found)} partitions, expected {len(table.partitions)}"
    offset = 0
    for number, ((name, size), wanted) in enumerate(zip(found, table.partitions, strict=False), start=1):
        size = table.size - offset if size is None else size
        if (name, offset, size) != (wanted.name, wanted.offset, wanted.size):
            yield (
                f"partition {number} is {name} with {size} bytes at {offset}, expected {wanted.name} with "
                f"{wanted.size} at {wanted.offset}"
            )
        offset += size


def _fstab(text: str | None, table: Table) -> Iterator[str]:
    if text is None:
        return
    by_path = {table.path(p): p for p in table.partitions}
    mounted: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) < 4:
            yield f"line {number}: expected four fields at least, found {line!r}"
            continue
        device, at, kind = fields[:3]
        if device == "/dev/root" and at == "/":  # the kernel's name for what root= says
            mounted[at] = device
        elif device.startswith(f"/dev/{table.device}"):
            yield from _mount(number, device, at, kind, by_path.get(device))
            if at in mounted:
                yield f"line {number}: {at} is mounted a second time"
            mounted[at] = device
    for partition in table.partitions:
        if partition.mount and partition.mount not in mounted:
            yield f"nothing is mounted at {partition.mount}, expected {table.path(partition)}"


def _mount(number: int, device: str, at: str, kind: str, partition: PlacedPartition | None) -> Iterator[str]:
    if partition is None:
        yield f"line {number}: {device} is no partition of the layout"
    elif partition.mount != at:
        meant = f"mounted at {partition.mount}" if partition.mount else "not mounted"
        yield f"line {number}: {device} is {partition.name}, which is {meant}, found {at}"
    elif partition.filesystem != kind:
        yield f"line {number}: {device} is {partition.filesystem}, found {kind}"


def _fw_env(text: str | None, table: Table) -> Iterator[str]:
    if text is None:
        return
    lines = [line.split() for line in text.splitlines() if line.split() and not line.startswith("#")]
    if len(lines) != 1 or len(lines[0]) < 3:
        yield f"expected one line of device, offset and size, found {len(lines)} lines"
        return
    device, offset, size = lines[0][:3]
    expected = (table.path(table.holding("env")), 0, blkdevparts.ENVIRONMENT)
    try:
        said = (device, int(offset, 0), int(size, 0))
    except ValueError:
        yield f"expected numbers for offset and size, found {offset!r} and {size!r}"
        return
    if said != expected:
        yield f"{device} at {said[1]:#x} with {said[2]:#x} bytes, expected {expected[0]} at 0x0 with 0x20000"


def _axp(index: axera_xml.Table | None, table: Table) -> Iterator[str]:
    if index is None:
        return
    gaps = [p.name for p in index.partitions if p.gap]
    if gaps:
        yield f"there is a gap before {', '.join(gaps)}, which blkdevparts cannot say"
    unit = index.unit.bytes
    sizes = [(p.name, None if p.size is None else p.size * unit) for p in index.partitions]
    yield from _entries(sizes, table)


def _updates(files: Mapping[str, str] | None, table: Table) -> Iterator[str]:
    if files is None:
        return
    names = {p.name: p for p in table.partitions}
    for file, target in sorted(files.items()):
        match = _UPDATE.fullmatch(file)
        # U-Boot makes the file's name from the partition's; nothing else says where a file goes.
        goes = match["name"] if match and (match["suffix"] == "bin") == (match["name"] == "uboot") else None
        if goes not in names:
            yield f"U-Boot looks for no {file}: there is no partition for it"
        elif goes != target:
            yield f"{file} would go to {goes}, expected {target}"
    missing = {p.name for p in table.partitions if p.contents not in NO_UPDATE} - set(files.values())
    if missing:
        yield f"no file for {', '.join(sorted(missing))}"


def _script(text: str | None, split: Split | None) -> Iterator[str]:
    if text is None:
        return
    if split is None:
        yield "a pool is loaded, and the board file has none"
        return
    found = loadscript.pools(text)
    if found != split.pools:
        pools = splits.Split(split.base, split.dram, split.linux, found)
        yield f"cmmpool={pools.cmmpool}, expected {split.cmmpool}"
