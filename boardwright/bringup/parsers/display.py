"""Whether it is the display that keeps kmscube, glmark2 and modetest from drawing, and not the card.

A mode is set, and a page flipped, by the one program that is the device's master (kernel 7.3
``drivers/gpu/drm/drm_ioctl.c``, ``DRM_MASTER``: ``EACCES`` for any other). glmark2: ``native-state-drm.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NO_MONITOR = re.compile(r"no connected connector|Failed to find a suitable connector")
_HELD = re.compile(r"DRM master|Permission denied|Device or resource busy")


def no_monitor(errors: Iterable[str]) -> bool:
    """Whether one of a program's errors says that no monitor is connected."""
    return any(_NO_MONITOR.search(error) for error in errors)


def held(errors: Iterable[str]) -> bool:
    """Whether one says that another program is the display's master: a desktop, or one left running."""
    return any(_HELD.search(error) for error in errors)
