"""What AXERA's modules tell below ``/proc/ax_proc``: the SDK's version, and how busy the NPU is.

Formats of the AX650 SDK V1.45.0 to V3.6.4: ``version`` is ``Ax_Version V1.45.0_P39_20240830020829``;
``npu/top``, once ``1`` was written to ``npu/enable``, has ``core:``, ``time:`` and ``period:`` (microseconds)
and ``utilization:`` with a percent sign, for each core of its own; an idle NPU has words instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_VERSION = re.compile(r"Ax_Version (V(\d{1,4})\.(\d{1,4})\.(\d{1,4})[\w.-]{0,60})")
_CORE = re.compile(r"^core:([\w.-]{1,40})")
_USE = re.compile(r"^utilization:(\d{1,3})%")


@dataclass(frozen=True, slots=True)
class Version:
    """``text`` as printed; ``number``: to compare, ``(1, 45, 0)``."""

    text: str
    number: tuple[int, int, int]


def version(text: bytes | str) -> Version | None:
    """Of ``/proc/ax_proc/version``."""
    found = (_VERSION.search(line) for line in lines(text))
    hit = next((hit for hit in found if hit), None)
    return None if hit is None else Version(hit[1], (int(hit[2]), int(hit[3]), int(hit[4])))


def npu_use(text: bytes | str) -> dict[str, int]:
    """Percent by core, of ``/proc/ax_proc/npu/top``; empty for an idle NPU."""
    use: dict[str, int] = {}
    core = ""
    for line in lines(text):
        if named := _CORE.match(line):
            core = named[1]
        elif core and len(use) < 100 and (told := _USE.match(line)):
            use[core] = int(told[1])
    return use
