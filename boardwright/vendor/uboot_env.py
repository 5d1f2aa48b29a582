"""U-Boot's environment block: a CRC-32, in the redundant form a flag byte, and ``name=value`` strings.

Sources: U-Boot 2020.04, ``include/env_internal.h`` (environment_t), ``env/common.c`` (env_import_redund:
which of two copies counts) and ``lib/hashtable.c`` (himport_r, hexport_r). The AX650 keeps one copy of
0x20000 bytes at the start of the partition ``env`` (AX650_pipro_box_defconfig, and ``fw_env.config`` of its
root file system); the redundant form is for other boards.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from boardwright.errors import InputError, IntegrityError, Place

SIZE = 0x20000
"""Bytes of the AX650's block."""
_CRC = struct.Struct("<I")
_SMALLEST = 8


@dataclass(frozen=True, slots=True)
class Environment:
    """``variables``: in the block's order. ``size``: its bytes. ``flag``: None without redundancy."""

    variables: Mapping[str, str]
    size: int = SIZE
    flag: int | None = None


def parse(block: bytes, *, redundant: bool = False, name: str = "environment") -> Environment:
    """Raises ``IntegrityError`` for a CRC that does not hold, ``InputError`` for a list that is none."""
    place, head = Place(name), _head(redundant)
    if len(block) < _SMALLEST:
        raise InputError(f"expected an environment of {SIZE} bytes, found {len(block)}", place=place)
    (stored,) = _CRC.unpack_from(block)
    if stored != (found := zlib.crc32(block[head:])):
        raise IntegrityError(
            f"the environment's CRC-32 is {stored:#010x}, its {len(block) - head} bytes make {found:#010x}",
            place=place,
            hint=_reason(block, stored, redundant),
        )
    flag = block[4] if redundant else None
    return Environment(_variables(block[head:], place), len(block), flag)


def make(environment: Environment) -> bytes:
    """The block. Raises ``InputError`` for a bad name or value, and when the variables do not fit."""
    redundant = environment.flag is not None
    if redundant and not 0 <= environment.flag <= 255:  # type: ignore[operator]
        raise InputError(f"flag: expected a byte, found {environment.flag}")
    text = b""
    for name, value in environment.variables.items():
        check_name(name)
        if "\0" in value:
            raise InputError(f"the value of {name} holds a NUL, which ends a variable")
        text += f"{name}={value}".encode("utf-8", "surrogateescape") + b"\0"
    # An empty list is two NULs as well: the first would be the name that is not there.
    text = text + b"\0" if text else b"\0\0"
    head = _head(redundant)
    if head + len(text) > environment.size:
        raise InputError(
            f"the variables need {head + len(text)} bytes, the block has {environment.size}",
            hint=f"the longest one is {max(environment.variables.items(), key=lambda v: len(v[1]))[0]}"
            if environment.variables
            else None,
        )
    body = text.ljust(environment.size - head, b"\0")
    flag = bytes([environment.flag]) if environment.flag is not None else b""
    return _CRC.pack(zlib.crc32(body)) + flag + body


def edited(environment: Environment, put: Mapping[str, str], drop: Iterable[str] = ()) -> Environment:
    """With ``put`` set and ``drop`` removed. Raises ``InputError`` for a bad name, or none to remove."""
    variables = dict(environment.variables)
    for name in drop:
        if name not in variables:
            raise InputError(
                f"there is no variable {name} to remove", hint=f"there are {', '.join(variables)}"
            )
        del variables[name]
    for name in put:
        check_name(name)
    return Environment(variables | dict(put), environment.size, environment.flag)


def newer(first: Environment, second: Environment) -> Environment:
    """Of two redundant copies whose CRCs hold, the one U-Boot takes (env/common.c, env_import_redund)."""
    if first.flag is None or second.flag is None:
        raise InputError("expected two redundant copies, found one without a flag byte")
    if (first.flag, second.flag) == (255, 0):
        return second
    if (first.flag, second.flag) == (0, 255):
        return first
    return second if second.flag > first.flag else first


def check_name(name: str) -> None:
    """Raises ``InputError`` for what U-Boot's ``setenv`` cannot name."""
    if not name or not name.isprintable() or "=" in name or " " in name:
        raise InputError(f"expected a variable's name without '=', spaces and control bytes, found {name!r}")


def _head(redundant: bool) -> int:
    return 5 if redundant else 4


def _variables(data: bytes, place: Place) -> dict[str, str]:
    found: dict[str, str] = {}
    at, number = 0, 0
    while at < len(data) and data[at]:
        number += 1
        end = data.find(b"\0", at)
        if end < 0:
            raise InputError(f"variable {number} has no end: {data[at : at + 40]!r}", place=place)
        name, equals, value = data[at:end].decode("utf-8", "surrogateescape").partition("=")
        if not equals or not name:
            shown = data[at : min(end, at + 60)]
            raise InputError(f"variable {number}: expected name=value, found {shown!r}", place=place)
        if name in found:
            raise InputError(f"variable {number}: {name} is there a second time", place=place)
        found[name] = value
        at = end + 1
    if at >= len(data):
        raise InputError(f"the list of {number} variables has no end mark", place=place)
    return found


def _reason(block: bytes, stored: int, redundant: bool) -> str | None:
    other = "without" if redundant else "with"
    if stored == zlib.crc32(block[_head(not redundant) :]):
        return f"the CRC holds {other} a flag byte: this is the other form"
    if len(set(block)) == 1:
        return "the block is erased: U-Boot runs with its compiled-in defaults until `saveenv`"
    if len(block) > SIZE and stored == zlib.crc32(block[_head(redundant) : SIZE]):
        return f"the CRC holds for the first {SIZE} bytes: cut the dump of the partition there"
    return "U-Boot does not use such a block either: it runs with its compiled-in defaults"
