"""kmscube's output: who renders, and frame rates per interval instead of its averages since the start.

kmscube (git 2021-01-03 and later), ``common.c``, ``gbm.c``, ``drm-legacy.c``, ``drm-atomic.c``,
``perfcntrs.c``: ``Rendered %u frames in %f sec (%f fps)`` comes when 2 s have passed, with counts and times
since the start. A readable stdin means "stop" to it: with /dev/null it ends at once, prints ``user
interrupted!`` and returns 0.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_RENDERED = re.compile(
    r"Rendered (\d{1,10}) frames in (\d{1,8}\.\d{1,9}) sec \((\d{1,8}(?:\.\d{1,9})?) fps\)"
)
_QUOTED = re.compile(r'^ {2,3}(version|vendor|renderer): "([^"]{0,200})"')
_MODIFIER = re.compile(r"Using modifier ([0-9a-fA-F]{1,16})")
_EGL = re.compile(r"with EGL version (\d{1,2}\.\d{1,2})")
_ERRORS = re.compile(
    r"no connected connector!|could not find mode!|no drm device found!|could not open drm device|"
    r"failed to set mode: .{1,80}|failed to queue page flip: .{1,80}|Failed to get a new framebuffer BO|"
    r"failed to initialize (?:(?:legacy|atomic|surfaceless)(?: DRM)?|GBM|EGL)|"
    r"no atomic modesetting support: .{1,80}|select timeout!|failed to commit: .{1,80}|"
    r"cannot create context|failed to create .{1,60}"
)
_DIED = re.compile(r"\b(Bus error|Segmentation fault|Illegal instruction|Aborted)\b")
SOFTWARE = ("llvmpipe", "softpipe", "swrast", "SWR")
"""What the names of Mesa's software renderers begin with."""


@dataclass(frozen=True, slots=True)
class Interval:
    """``frames`` shown in ``seconds``, both since the line before."""

    frames: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.frames / self.seconds


@dataclass(frozen=True, slots=True)
class Run:
    """``modifiers``: as asked for, one a buffer. ``died``: ``Bus error`` and its like. ``interrupted``: its
    standard input was readable, so it stopped by itself and what it did proves nothing."""

    renderer: str
    egl: str
    modifiers: tuple[int, ...]
    modifiers_failed: int
    frames: int
    seconds: float
    intervals: tuple[Interval, ...]
    errors: tuple[str, ...]
    died: str
    interrupted: bool

    @property
    def is_software(self) -> bool:
        return self.renderer.startswith(SOFTWARE)

    @property
    def rates(self) -> tuple[float, ...]:
        """Frames a second of each interval of half a second at least; the last may be a scrap of frames."""
        return tuple(i.rate for i in self.intervals if i.seconds >= 0.5)

    @property
    def rate(self) -> float | None:
        """The middle one of the intervals' rates; of a run too short for one, the average."""
        if self.rates:
            return statistics.median(self.rates)
        return self.frames / self.seconds if self.seconds > 0 else None


def parse(text: bytes | str) -> Run:
    """Both streams of kmscube, in any order."""
    renderer = egl = died = ""
    modifiers: list[int] = []
    counts: list[tuple[int, float]] = []
    errors: list[str] = []
    failed, interrupted = 0, False
    for line in lines(text):
        if counted := _RENDERED.search(line):
            counts.append((int(counted[1]), float(counted[2])))
        elif quoted := _QUOTED.match(line):
            renderer = quoted[2] if quoted[1] == "renderer" else renderer
        elif using := _MODIFIER.search(line):
            modifiers.append(int(using[1], 16))
        elif version := _EGL.search(line):
            egl = version[1]
        elif "Modifiers failed!" in line:
            failed += 1
        elif "user interrupted!" in line:
            interrupted = True
        elif wrong := _ERRORS.search(line):
            errors.append(wrong[0])
        if death := _DIED.search(line):
            died = died or death[1]
    counts = counts[:MOST_ITEMS]
    last = counts[-1] if counts else (0, 0.0)
    return Run(
        renderer, egl, tuple(modifiers[:100]), failed, last[0], last[1], _intervals(counts),
        tuple(errors[:100]), died, interrupted,
    )  # fmt: skip


def _intervals(counts: list[tuple[int, float]]) -> tuple[Interval, ...]:
    """Differences of neighbours; a line that goes backwards (a second run, a damaged digit) starts anew."""
    found = []
    frames = 0
    seconds = 0.0
    for now_frames, now_seconds in counts:
        if now_frames >= frames and now_seconds > seconds:
            found.append(Interval(now_frames - frames, now_seconds - seconds))
        frames, seconds = now_frames, now_seconds
    return tuple(found)
