"""AMD chips by the name their driver prints, and the rings each must test.

Kernel 7.3: families in ``radeon_family.h``, rings in ``radeon.h``; what has UVD and VCE in
``radeon_asic_init`` (``radeon_asic.c``); which rings are tested in ``r600.c``, ``evergreen.c``, ``ni.c``
(Cayman starts the compute rings and marks them not ready: "only test cp0"), ``si.c`` and ``cik.c``. The set
follows the chip, never the marketing name: an R7 250 may be a Verde (rings 0 to 7) or an Oland (0 to 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from boardwright.bringup.parsers.dmesg import Message

GFX, CP1, CP2, DMA, DMA1, UVD, VCE1, VCE2 = range(8)
"""Indices of radeon's rings (``radeon.h``: ``RADEON_RING_TYPE_GFX_INDEX`` and so on)."""
RING_NAMES = ("GFX", "CP1", "CP2", "DMA", "DMA1", "UVD", "VCE1", "VCE2")

_GENERATIONS = {
    "r100": "R100 RV100 RS100 RV200 RS200 R200 RV250 RS300 RV280 R300 R350 RV350 RV380 R420 R423 RV410 RS400 "
    "RS480 RS600 RS690 RS740 RV515 R520 RV530 RV560 RV570 R580",
    "r600": "R600 RV610 RV630 RV670 RV620 RV635 RS780 RS880 RV770 RV730 RV710 RV740",
    "evergreen": "CEDAR REDWOOD JUNIPER CYPRESS HEMLOCK PALM SUMO SUMO2 BARTS TURKS CAICOS",
    "cayman": "CAYMAN ARUBA",
    "si": "TAHITI PITCAIRN VERDE OLAND HAINAN",
    "cik": "BONAIRE KAVERI KABINI HAWAII MULLINS",
    "vi": "TOPAZ TONGA FIJI CARRIZO STONEY POLARIS10 POLARIS11 POLARIS12 VEGAM",
    "gfx9": "VEGA10 VEGA12 VEGA20 RAVEN ARCTURUS RENOIR ALDEBARAN",
    "gfx10": "NAVI10 CYAN_SKILLFISH NAVI14 NAVI12 SIENNA_CICHLID NAVY_FLOUNDER VANGOGH DIMGREY_CAVEFISH "
    "BEIGE_GOBY YELLOW_CARP",
    "ip discovery": "IP DISCOVERY",
}
GENERATION = {chip: name for name, chips in _GENERATIONS.items() for chip in chips.split()}
"""Chip to generation."""
_BASE = {
    "r100": {GFX},
    "r600": {GFX, DMA, UVD},
    "evergreen": {GFX, DMA, UVD},
    "cayman": {GFX, DMA, DMA1, UVD},
    "si": {GFX, CP1, CP2, DMA, DMA1, UVD, VCE1, VCE2},
    "cik": {GFX, CP1, CP2, DMA, DMA1, UVD, VCE1, VCE2},
}
_LACKS = {"R600": {UVD}, "OLAND": {VCE1, VCE2}, "HAINAN": {UVD, VCE1, VCE2}}
_HAS_TOO = {"ARUBA": {VCE1, VCE2}}
_NO_UVD = frozenset({0x9616, 0x9611, 0x9613, 0x9711, 0x9713})
"""PCI devices of RS780 and RS880 without UVD: 760G, 780V, 880V."""
_AMDGPU = {"si": ("gfx", "comp", "sdma"), "cik": ("gfx", "comp", "sdma"), "vi": ("gfx", "comp", "sdma")}

_DETECTED = re.compile(
    r"initializing kernel modesetting \(([A-Z][A-Z0-9_ ]{1,40}) 0x([0-9A-Fa-f]{1,8}):0x([0-9A-Fa-f]{1,8})"
)


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip as its driver names it, with its PCI vendor and device, and the log line that says so."""

    name: str
    vendor: int
    device: int
    driver: str
    line: str

    @property
    def generation(self) -> str:
        """``si`` and so on; empty for a chip this table does not know."""
        return GENERATION.get(self.name, "")

    @property
    def rings(self) -> frozenset[int] | None:
        """The rings that radeon tests on this chip; None when the chip is none of radeon's."""
        base = _BASE.get(self.generation)
        if base is None:
            return None
        rings = (base | _HAS_TOO.get(self.name, set())) - _LACKS.get(self.name, set())
        return frozenset(rings - {UVD} if self.device in _NO_UVD else rings)

    @property
    def ring_kinds(self) -> tuple[str, ...]:
        """What the names of amdgpu's rings on this chip begin with, at the least."""
        return _AMDGPU.get(self.generation, ("gfx", "comp", "sdma"))


def detect(found: Iterable[Message]) -> list[Chip]:
    """The chips that radeon or amdgpu say they drive, in the order of the log, each once."""
    chips: dict[tuple[str, int, str], Chip] = {}
    last = ""
    for message in found:
        if "modesetting" in message.text:
            if told := re.match(r"(radeon|amdgpu) kernel modesetting enabled", message.text):
                last = told[1]
            if named := _DETECTED.search(message.text):
                driver = message.driver or last
                chip = Chip(named[1], int(named[2], 16), int(named[3], 16), driver, message.raw)
                chips.setdefault((chip.name, chip.device, driver), chip)
    return list(chips.values())[:64]


_RADEON_SPEAKS = re.compile(r"^radeon: |Initialized radeon \d|radeon kernel modesetting")


def owner(found: Sequence[Message]) -> str:
    """Whose the lines are that name no driver, as ``[drm] ring test on 0 succeeded``.

    With both drivers in the log they are radeon's: of the two only that one still prints such lines.
    """
    if any(m.driver == "radeon" or _RADEON_SPEAKS.search(m.text) for m in found):
        return "radeon"
    return "amdgpu" if any("amdgpu" in m.raw for m in found) else "radeon"
