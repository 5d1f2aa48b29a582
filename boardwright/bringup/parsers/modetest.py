"""modetest's output (libdrm 2.4.124, ``tests/modetest/modetest.c``), and both programs called kmstest."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_OPENED = re.compile(r"opened device `([^`']{0,100})[`'] on driver `([^`']{1,60})[`']")
_TRYING = re.compile(r"trying to open device '([^']{1,100})' ?\.\.\. ?(done|failed|is not a KMS device)?")
_CONNECTOR = re.compile(r"^(\d{1,6})\t(\d{1,6})\t(connected|disconnected|unknown)\s{1,8}([\w-]{1,40})")
_MODE = re.compile(r"^ {2}#(\d{1,3}) (\d{1,5}x\d{1,5}i?) (\d{1,4}\.\d{1,3})")
_SET = re.compile(
    r"setting mode (\d{1,5}x\d{1,5}i?)-(\d{1,4}\.\d{1,3})Hz(?:@\w{4})? "
    r"on connectors ([\d, ]{1,60}), crtc (\d{1,6})"
)
_FLIP = re.compile(r"freq: (\d{1,5}\.\d{1,4})Hz")
_KMSXX_FLIP = re.compile(r"Connector \w{1,20}: fps (\d{1,5}\.\d{1,6}), slowest (\d{1,6}\.\d{1,6}) ms")
_ERRORS = re.compile(
    r"failed to (?:set mode|page flip|add fb|set gamma|open|find mode|create)\b.{0,120}|"
    r"select timed out or error \(ret -?\d{1,6}\)|no device found|couldn't find .{1,80}"
)


@dataclass(frozen=True, slots=True)
class Connector:
    """``modes``: (size, refresh in hertz), the preferred first."""

    number: int
    name: str
    status: str
    modes: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """``mode``: what was set, as (size, hertz). ``flips``: page flips a second, one value a report.

    ``refused``: devices that did not open or are none of KMS, each with the reason.
    """

    driver: str
    connectors: tuple[Connector, ...]
    mode: tuple[str, float] | None
    flips: tuple[float, ...]
    errors: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def renders_only(self) -> bool:
        """Whether every device that was tried has no display: a card of rendering alone."""
        return bool(self.refused) and all(why == "is not a KMS device" for _, why in self.refused)

    @property
    def connected(self) -> tuple[Connector, ...]:
        return tuple(c for c in self.connectors if c.status == "connected")


def parse(text: bytes | str) -> Run:
    driver, mode = "", None
    found: list[tuple[int, str, str, list[tuple[str, float]]]] = []
    flips: list[float] = []
    errors: list[str] = []
    refused: list[tuple[str, str]] = []
    for line in lines(text):
        if row := _CONNECTOR.match(line):
            found.append((int(row[1]), row[4], row[3], []))
        elif listed := _MODE.match(line):
            if found and len(found[-1][3]) < 200:
                found[-1][3].append((listed[2], float(listed[3])))
        elif opened := _OPENED.search(line):
            driver = opened[2]
        elif trying := _TRYING.search(line):
            if trying[2] == "done":
                driver = driver or trying[1]
            elif trying[2] and len(refused) < 100:
                refused.append((trying[1], trying[2]))
        elif chosen := _SET.search(line):
            mode = (chosen[1], float(chosen[2]))
        elif rate := _FLIP.search(line) or _KMSXX_FLIP.search(line):
            flips.append(float(rate[1]))
        if wrong := _ERRORS.search(line):
            errors.append(wrong[0])
    connectors = tuple(Connector(n, name, status, tuple(modes)) for n, name, status, modes in found[:100])
    return Run(driver, connectors, mode, tuple(flips[:10_000]), tuple(errors[:100]), tuple(refused))
