"""glmark2's output, scene by scene, and its comparison with a reference.

glmark2 2021.12 and 2023.01: ``src/main-loop.cpp`` (``[scene] options: FPS: %u FrameTime: %.3f ms``; the end
of the line is printed when the scene ends, so a crash leaves a scene without a rate), ``src/main.cpp``
(score).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from boardwright.bringup.parsers.kmscube import SOFTWARE
from boardwright.bringup.parsers.text import lines

_SCENE = re.compile(
    r"\[(build|texture|shading|bump|effect2d|pulsar|desktop|buffer|ideas|jellyfish|terrain|shadow|refract|"
    r"conditionals|function|loop|clear)\] (\S{0,400}?):?(?: (.{0,400}))?$"
)
"""Options have colons between them too: they end at a colon before a blank, or at the end of the line."""
_RATE = re.compile(r"FPS: (\d{1,8}) FrameTime: (\d{1,8}\.\d{1,6}) ms")
_TOLD = re.compile(r"(Unsupported|Set up failed|Validation: \w{1,40}|^done$)")
_SHADERS = re.compile(r"ShaderCompTime: (\d{1,8}(?:\.\d{1,6})?) ms")
_BUSY = re.compile(r"CpuBusy: (\d{1,6}(?:\.\d{1,6})?)%")
_HEAD = re.compile(r"GL_(VENDOR|RENDERER|VERSION): {1,8}(.{1,200})")
_SURFACE = re.compile(r"Surface Size: {1,8}(\d{1,5})x(\d{1,5})")
_SCORE = re.compile(r"glmark2 Score: (\d{1,8})")
_VERSION = re.compile(r"^ {2,8}glmark2 (20\d\d\.\d\d[\w.-]{0,20})")
_ERROR = re.compile(
    r"Failed to become DRM master|Failed to set swap interval|Error: .{1,160}|Bus error|Segmentation fault"
)

REFERENCE: Mapping[str, tuple[float, float]] = {
    "build use-vbo=false": (939, 939),
    "build use-vbo=true": (2411, 2411),
    "texture": (1957, 2003),
    "bump bump-render=high-poly": (1739, 1739),
    "desktop effect=blur": (456, 456),
    "buffer update-method=map": (214, 214),
    "buffer update-method=subdata": (233, 233),
    "ideas": (1430, 1430),
    "jellyfish": (806, 806),
    "terrain": (150, 150),
    "shadow": (843, 843),
    "refract": (115, 115),
    "loop": (1970, 1970),
}
"""Frames a second, lowest and highest, of a Cape Verde on a ROCK 5B's PCIe 3.0 x4 slot at 1680x1050: one
measurement by one person (jas-hacks.blogspot.com, 2023-04-30). A name is the scene and an option."""
REFERENCE_SCORE = 1450


@dataclass(frozen=True, slots=True)
class Scene:
    """``rate`` in frames a second, rounded up by glmark2; None: ``told`` says why, or the scene never
    ended. ``busy``: percent of one CPU; ``shaders``: milliseconds to compile them; both only when asked for
    (``--results``, 2023.01).
    """

    name: str
    options: str
    rate: int | None
    milliseconds: float | None
    told: str
    line: str
    busy: float | None = None
    shaders: float | None = None

    @property
    def failed(self) -> bool:
        """Whether glmark2 says that the scene cannot be drawn, or was drawn wrong."""
        return self.told in ("Set up failed", "Validation: Failure")

    @property
    def title(self) -> str:
        return f"{self.name} {self.options}".strip()


@dataclass(frozen=True, slots=True)
class Run:
    """``score`` None: the run did not reach its end. ``size``: width and height in pixels."""

    version: str
    renderer: str
    size: tuple[int, int] | None
    scenes: tuple[Scene, ...]
    score: int | None
    errors: tuple[str, ...]

    @property
    def is_software(self) -> bool:
        return self.renderer.startswith(SOFTWARE)

    @property
    def capped(self) -> bool:
        """Whether no scene can be faster than the monitor."""
        return any("swap interval" in error for error in self.errors)

    @property
    def stopped_in(self) -> Scene | None:
        """The scene that was running when the run broke off."""
        last = self.scenes[-1] if self.scenes else None
        return last if last and self.score is None and last.rate is None and not last.told else None


def parse(text: bytes | str) -> Run:
    """A run's output, whole or cut off anywhere."""
    version, head, size, score = "", {"RENDERER": ""}, None, None
    scenes: list[Scene] = []
    errors: list[str] = []
    for line in lines(text):
        if scene := _scene(line):
            scenes.append(scene)
        elif told := _HEAD.search(line):
            head[told[1]] = told[2].strip()
        elif surface := _SURFACE.search(line):
            size = (int(surface[1]), int(surface[2]))
        elif total := _SCORE.search(line):
            score = int(total[1])
        elif named := _VERSION.match(line):
            version = named[1]
        if error := _ERROR.search(line):
            errors.append(error[0])
    return Run(version, head["RENDERER"], size, tuple(scenes[:500]), score, tuple(errors[:100]))


def _scene(line: str) -> Scene | None:
    begun = _SCENE.match(line.rstrip())
    if begun is None:
        return None
    rest = begun[3] or ""
    rate, told = _RATE.search(rest), _TOLD.search(rest)
    busy, shaders = _BUSY.search(rest), _SHADERS.search(rest)
    return Scene(
        begun[1], "" if begun[2] == "<default>" else begun[2],
        int(rate[1]) if rate else None, float(rate[2]) if rate else None, told[1] if told else "",
        line.strip(), float(busy[1]) if busy else None, float(shaders[1]) if shaders else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A scene outside the reference: ``ratio`` of its rate to the nearer end of the reference."""

    title: str
    rate: int
    low: float
    high: float
    ratio: float


def compare(
    run: Run, tolerance: float = 0.3, reference: Mapping[str, tuple[float, float]] = REFERENCE
) -> tuple[list[Difference], int]:
    """Scenes more than ``tolerance`` (a share) below or above the reference, and how many were compared."""
    outside, compared = [], 0
    for scene in run.scenes:
        known = _known(scene, reference)
        if known is None or scene.rate is None:
            continue
        compared += 1
        low, high = known
        ratio = scene.rate / low if scene.rate < low else max(scene.rate / high, 1.0)
        if not 1 - tolerance <= ratio <= 1 + tolerance:
            outside.append(Difference(scene.title, scene.rate, low, high, ratio))
    return outside, compared


def _known(scene: Scene, reference: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """The entry with the scene's name whose options are all among the scene's."""
    options = scene.options.split(":")
    for title, rates in reference.items():
        name, *wanted = title.split()
        if name == scene.name and all(any(w in o for o in options) for w in wanted):
            return rates
    return None
