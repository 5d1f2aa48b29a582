"""Sizes as users write them: a whole number and a binary unit."""

from __future__ import annotations

import re

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d+) ?([A-Za-z]+)")


class Size(int):
    """Bytes, written ``512MiB``."""

    @classmethod
    def parse(cls, text: object) -> Size:
        """``512MiB`` to bytes.

        Raises ``ValueError`` whose text says what was expected: powers of ten and bare numbers are
        refused, because ``512MB`` is 512,000,000 bytes to some tools and 536,870,912 to others.
        """
        if not isinstance(text, str):
            raise ValueError(f"expected a size such as '512MiB', found {text!r}")
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a size such as '512MiB' (a whole number and a unit), found {text!r}")
        number, unit = match.groups()
        if unit in _UNITS:
            return cls(int(number) * _UNITS[unit])
        for name in _UNITS:
            if unit.lower() in (name.lower(), name.lower().replace("i", ""), name[0].lower()) and name != "B":
                raise ValueError(f"expected a binary unit, found {text!r}: write {number}{name}")
        raise ValueError(f"expected one of the units {', '.join(_UNITS)}, found {text!r}")

    def __str__(self) -> str:
        for name, factor in reversed(_UNITS.items()):
            if self and self % factor == 0:
                return f"{int(self) // factor}{name}"
        return f"{int(self)}B"
