"""A line of the kernel log taken apart: time, PCI device, driver, function, severity, text.

The shapes are those of the DRM and device printing macros, kernels 4.19 to 7.3
(``drivers/gpu/drm/drm_print.c``, ``drivers/base/core.c``, ``drivers/gpu/drm/amd/amdgpu/amdgpu.h``)::

    [   12.345678] [drm] TEXT                                                  DRM_INFO
    [drm:r600_ring_test [radeon]] *ERROR* TEXT                                 DRM_ERROR
    amdgpu 0000:01:00.0: [drm:amdgpu_ib_ring_tests [amdgpu]] *ERROR* TEXT      DRM_DEV_ERROR
    radeon 0000:01:00.0: [drm] *ERROR* TEXT                                    drm_err
    amdgpu 0000:01:00.0: amdgpu: TEXT                                          dev_err with a dev_fmt
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_PRIORITY = re.compile(r"<\d{1,3}>")
_TIME = re.compile(r"\[ {0,8}(\d{1,8}\.\d{1,9})\](?:\[ {0,8}[TC]\d{1,8}\])? ?")
_DEVICE = re.compile(r"([a-z][\w-]{0,40}) ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): ")
_DRM = re.compile(r"\[drm(?::([\w.]{1,100})(?: \[(\w{1,40})\])?)?\] ?")
_ERROR = re.compile(r"\*ERROR\* ?")


@dataclass(frozen=True, slots=True)
class Message:
    """``number``: line of the text, from 1. ``seconds``: since the kernel started. ``raw``: the line."""

    number: int
    raw: str
    text: str
    seconds: float | None = None
    driver: str = ""
    device: str = ""
    function: str = ""
    is_error: bool = False


def messages(log: bytes | str, device: str = "") -> Iterator[Message]:
    """The messages of a kernel log, as ``dmesg`` or a console shows it.

    With ``device`` (``0000:01:00.0``) without those that name another one.
    """
    for number, line in enumerate(lines(log), start=1):
        if line.strip():
            found = message(line, number)
            if not (device and found.device and found.device != device):
                yield found


def message(line: str, number: int = 1) -> Message:
    """One line; what is not there is empty."""
    rest = line.strip()
    if found := _PRIORITY.match(rest):
        rest = rest[found.end() :]
    seconds = driver = device = function = ""
    if found := _TIME.match(rest):
        seconds, rest = found[1], rest[found.end() :]
    if found := _DEVICE.match(rest):
        driver, device, rest = found[1], found[2], rest[found.end() :]
        rest = rest.removeprefix(f"{driver}: ")
    if found := _DRM.match(rest):
        function, module = (found[1] or "").partition(".")[0], found[2]
        driver, rest = driver or module or "", rest[found.end() :]
    is_error = bool(found := _ERROR.match(rest))
    if found:
        rest = rest[found.end() :]
    return Message(
        number, line.strip(), rest, float(seconds) if seconds else None, driver, device, function, is_error
    )
