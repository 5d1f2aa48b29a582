"""Sizes as users write them: a whole number and a binary unit."""

from __future__ import annotations

import abc
import re
from typing import TYPE_CHECKING, Literal

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([0-9]{1,15}) ?([A-Za-z]+)")
_FRACTION = re.compile(r"([0-9]{1,9}\.[0-9]{1,9}) ?([KMGT]iB)")
_EXPECTED = "expected a size such as '512MiB' (a whole number and a unit)"

PATTERN = r"^[0-9]{1,15} ?(B|KiB|MiB|GiB|TiB)$"
"""What :meth:`Size.parse` accepts, for JSON Schema."""


class SizeError(ValueError):
    """A size that was not understood: what was expected and found, and what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class Size(int):
    """Bytes, written ``512MiB``."""

    @classmethod
    def parse(cls, text: object) -> Size:
        """``512MiB`` to bytes.

        Raises :class:`SizeError`: powers of ten and bare numbers are refused, because ``512MB`` is
        512,000,000 bytes to some tools and 536,870,912 to others.
        """
        if isinstance(text, int) and not isinstance(text, bool):
            raise SizeError(f"{_EXPECTED}, found {text}", f"add a unit: {', '.join(_UNITS)}")
        if not isinstance(text, str):
            raise SizeError(f"{_EXPECTED}, found {_shown(text)}")
        match = _SIZE.fullmatch(text)
        if match is None:
            raise SizeError(f"{_EXPECTED}, found {text!r}", _whole(text))
        number, unit = match.groups()
        if unit in _UNITS:
            return cls(int(number) * _UNITS[unit])
        for name in list(_UNITS)[1:]:
            if unit.lower() in (name.lower(), f"{name[0]}b".lower(), name[0].lower()):
                raise SizeError(f"expected a binary unit, found {text!r}", f"write {number}{name}")
        raise SizeError(f"expected one of the units {', '.join(_UNITS)}, found {text!r}")

    def __str__(self) -> str:
        for name, factor in reversed(_UNITS.items()):
            if self and self % factor == 0:
                return f"{int(self) // factor}{name}"
        return f"{int(self)}B"


def _whole(text: str) -> str | None:
    """``1.5GiB`` as a whole number of a smaller unit, when it is one."""
    match = _FRACTION.fullmatch(text)
    if match is None:
        return None
    whole, part = match[1].split(".")
    scaled, rest = divmod(int(whole + part) * _UNITS[match[2]], 10 ** len(part))
    return None if rest else f"write {Size(scaled)}"


def _shown(value: object) -> str:
    return {type(None): "nothing", dict: "a mapping", list: "a list"}.get(type(value), str(value).lower())


if TYPE_CHECKING:
    SizeOrRest = Size | Literal["rest"]
else:
    # msgspec takes no union of a type of ours with another, but any class that answers isinstance.
    class SizeOrRest(abc.ABC):  # noqa: B024
        """A size, or the word ``rest`` for what the others leave."""

    SizeOrRest.register(Size)
    SizeOrRest.register(str)


def decode(kind: type, value: object) -> Size | str:
    """``dec_hook`` of msgspec, which asks about :class:`Size` and ``SizeOrRest`` only.

    Raises :class:`SizeError`.
    """
    if kind is not Size and value == "rest":
        return "rest"
    return Size.parse(value)
