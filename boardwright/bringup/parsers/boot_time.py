"""Where the time of a boot goes: the console's milestones, and systemd's own account of kernel and services.

systemd 252 to 257, ``systemd-analyze`` (``analyze-time-data.c``): ``Startup finished in 3.4s (kernel) + …``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_SPAN = re.compile(
    r"(?:(\d{1,4})h )?(?:(\d{1,4})min )?(?:(\d{1,6}(?:\.\d{1,6})?)s|(\d{1,6}(?:\.\d{1,6})?)ms|(\d{1,6})us)"
)
_PART = re.compile(r"([\dhminsu. ]{2,40}?) \((firmware|loader|kernel|initrd|userspace)\)")
_TOTAL = re.compile(r"= ([\dhminsu. ]{2,40})$")
_TARGET = re.compile(r"^(\w[\w.@-]{1,80}\.target) reached after ([\dhminsu. ]{2,40}) in userspace")
_BLAME = re.compile(
    r"^ {0,12}([\dhminsu. ]{2,40}?) ([\w@\\:.-]{1,200}\.(?:service|device|mount|socket|swap|target))$"
)


@dataclass(frozen=True, slots=True)
class Startup:
    """Seconds. ``parts``: firmware, loader, kernel, initrd, userspace, as far as systemd knows them.
    ``slowest``: units with the time each took to start."""

    parts: dict[str, float]
    total: float | None
    target: str
    reached: float | None
    slowest: tuple[tuple[str, float], ...]

    @property
    def finished(self) -> bool:
        return self.total is not None


def seconds(text: str) -> float | None:
    """Of a systemd time span such as ``1min 2.345s`` or ``12ms``."""
    hit = _SPAN.fullmatch(text.strip())
    if hit is None:
        return None
    hours, minutes, whole, milli, micro = (float(part or 0) for part in hit.groups())
    return round(hours * 3600 + minutes * 60 + whole + milli / 1e3 + micro / 1e6, 6)


def systemd(text: bytes | str) -> Startup:
    """``systemd-analyze`` and, after it or alone, ``systemd-analyze blame``."""
    parts: dict[str, float] = {}
    total = reached = None
    target = ""
    slowest: list[tuple[str, float]] = []
    for line in lines(text):
        if line.startswith("Startup finished in "):
            parts = {name: seconds(span) or 0.0 for span, name in _PART.findall(line[20:].replace("+ ", ""))}
            end = _TOTAL.search(line.strip())
            total = seconds(end[1]) if end else None
        elif at := _TARGET.match(line):
            target, reached = at[1], seconds(at[2])
        elif (unit := _BLAME.match(line)) and (took := seconds(unit[1])) is not None:
            slowest.append((unit[2], took))
    return Startup(parts, total, target, reached, tuple(slowest[:1000]))


def stages(milestones: Mapping[str, float], shell: float) -> list[tuple[str, float]]:
    """Each milestone with the seconds until the next one, and to the ``shell`` (seconds since power-on).

    A board that was up already has passed none.
    """
    times = sorted(milestones.items(), key=lambda item: item[1])
    if not times:
        return [("power-on", shell)]
    ends = [at for _, at in times[1:]] + [shell]
    return [("power-on", times[0][1])] + [
        (name, max(end - at, 0.0)) for (name, at), end in zip(times, ends, strict=True)
    ]
