"""U-Boot's environment block, and the three forms of it that repartitioning writes.

A block is a CRC-32 (little-endian) of what follows, then ``name=value`` strings, each ended by NUL, the
list by another, padded to the size (U-Boot ``include/env_internal.h``, environment_t without redundancy;
0x20000 bytes at the start of the partition env: AX650_pipro_box_defconfig).

What differs between the old layout and the new one is put at the front and padded, so that all three blocks
are alike but for their first sector: the step from one to the next is one sector, which is written or is
not.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

from .parts import SECTOR, Refused, of_bootargs, root_of

SIZE = 0x20000
HOLD = "bw.hold"
FRONT = SECTOR - 4 - len("bootargs=")
"""Characters of bootargs that share the first sector with the CRC."""


def read(block: bytes) -> dict[str, str]:
    """The variables, in order. Raises :class:`Refused` for a wrong CRC or what is no list of variables."""
    if len(block) < 8:
        raise Refused(f"expected an environment of {SIZE} bytes, found {len(block)}")
    (stored,) = struct.unpack_from("<I", block, 0)
    if stored != (computed := zlib.crc32(block[4:])):
        raise Refused(
            f"the environment's CRC is {stored:08x}, expected {computed:08x}: U-Boot does not use it either",
            hint="type `saveenv` once at U-Boot's prompt, which writes down what it runs with, and "
            "begin again",
        )
    text, end, _ = block[4:].partition(b"\0\0")
    if not end:
        raise Refused(f"the environment of {len(block)} bytes has no end mark")
    found: dict[str, str] = {}
    for number, entry in enumerate(text.split(b"\0"), start=1):
        name, equals, value = entry.decode("latin-1").partition("=")
        if not equals or not name or name in found:
            raise Refused(f"variable {number} of the environment reads {entry[:60]!r}, expected name=value")
        found[name] = value
    return found


def make(variables: dict[str, str], size: int = SIZE) -> bytes:
    """The block. Raises :class:`Refused` when the variables do not fit."""
    text = b"".join(f"{name}={value}".encode("latin-1") + b"\0" for name, value in variables.items()) + b"\0"
    if len(text) + 4 > size:
        raise Refused(f"the environment needs {len(text) + 4} bytes, its block has {size}")
    body = text.ljust(size - 4, b"\0")
    return struct.pack("<I", zlib.crc32(body)) + body


@dataclass(frozen=True, slots=True)
class Blocks:
    """``reordered``: the old one with its bootargs in front. ``guard``: the same, but the root is the
    stick's, so
    that a start in between leads to the rescue system. ``new``: the layout wanted."""

    reordered: bytes
    guard: bytes
    new: bytes
    atomic: bool
    """Whether they differ in their first sector only."""


def blocks(block: bytes, parts: str, root: str, stick_root: str, stick_init: str, mem: str = "") -> Blocks:
    """The three blocks for ``blkdevparts=parts``, ``root=root`` and ``mem=mem`` (empty: as it is).

    Raises :class:`Refused`, also for a ``mem`` that gives Linux what the NPU has.
    """
    variables = read(block)
    if "bootargs" not in variables:
        raise Refused(
            "the environment has no bootargs: U-Boot runs with its compiled-in ones",
            hint="type `saveenv` once at U-Boot's prompt, which writes down what it runs with, and "
            "begin again",
        )
    bootargs = variables["bootargs"]
    old_parts, old_root = of_bootargs(bootargs), root_of(bootargs)
    old_mem = memory_of(bootargs)
    _check_memory(old_mem, mem)
    rest = " ".join(
        word for word in bootargs.split() if not re.match(r"(blkdevparts|root|bw\.was|init|mem)=", word)
    )
    was, will = (f" mem={value}" if value else "" for value in (old_mem, mem or old_mem))
    init = re.search(r"(?:^|\s)(init=\S+)", bootargs)
    own = f" {init[1]}" if init else ""
    fronts = [
        f"root={old_root}{own} blkdevparts={old_parts}{was}",
        f"root={stick_root} init={stick_init} rootwait blkdevparts={old_parts}{was}",
        f"root={root}{own} blkdevparts={parts}{will}",
    ]
    width = max(len(front) for front in fronts)
    others = {name: value for name, value in variables.items() if name != "bootargs"}
    made = [make({"bootargs": f"{front:<{width}} {rest}"} | others, len(block)) for front in fronts]
    return Blocks(made[0], made[1], made[2], atomic=width < FRONT)


def memory_of(bootargs: str) -> str:
    """The value of ``mem=``, or nothing. Raises :class:`Refused` when there are several."""
    found = [word.removeprefix("mem=") for word in bootargs.split() if word.startswith("mem=")]
    if len(found) > 1:
        raise Refused(f"expected one mem= in the bootargs, found {len(found)} in {bootargs[:200]!r}")
    return found[0] if found else ""


def _check_memory(old: str, new: str) -> None:
    """Linux may get less at once: what it leaves is nobody's until the load script is changed, too."""
    after = _bytes(new) if new else 0
    if old and (before := _bytes(old)) < after:
        raise Refused(
            f"Linux has mem={old} and would get {new}: {(after - before) >> 20} MiB of the NPU's pool, which "
            "lies there until the load script says otherwise",
            hint="change cmmpool= on the running board first: docs/repartition.md, Memory",
        )


def _bytes(value: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([KMG])", value)
    if match is None:
        raise Refused(f"expected mem= such as 3072M, found {value!r}")
    return int(match[1]) << {"K": 10, "M": 20, "G": 30}[match[2]]


def one_shot(bootargs: str, stick_root: str, stick_init: str) -> str:
    """The bootargs that start the rescue stick once, which then waits to be told what to do.

    ``bw.hold``: without it ``rescue-init`` goes on with an interrupted run by itself, which is right after
    the guard's start and wrong when someone only asks for the plan.
    """
    of_bootargs(bootargs)
    root_of(bootargs)
    rest = [word for word in bootargs.split() if not re.match(r"(root|init)=", word)]
    more = [] if "rootwait" in rest else ["rootwait"]
    return " ".join([f"root={stick_root}", f"init={stick_init}", *rest, *more, HOLD])
