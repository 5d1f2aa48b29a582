"""The radeon driver's ring and IB tests, kernels 4.19 to 7.3.

Formats: ``r100.c``, ``r600.c``, ``r600_dma.c``, ``cik_sdma.c``, ``uvd_v1_0.c``, ``radeon_vce.c``,
``radeon_ib.c``, ``radeon_device.c``, ``si.c`` below ``drivers/gpu/drm/radeon``. UVD's lines went from
DRM_INFO to drm_info in 7.1; the text stayed, so only :mod:`boardwright.bringup.parsers.dmesg` knows of it.
What the module's parameters ``uvd`` and ``vce`` switch off is not tested (``radeon_asic.c``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from boardwright.bringup.parsers import ring_values
from boardwright.bringup.parsers.chips import RING_NAMES, UVD, VCE1, VCE2, Chip, detect, owner
from boardwright.bringup.parsers.dmesg import Message, messages
from boardwright.bringup.parsers.text import MOST_ITEMS, lines

_RING_PASS = re.compile(r"ring test (?:on (\d{1,2}) )?succeeded in (\d{1,9}) usecs")
_VALUE = rf"(?: ?{ring_values.FORMAT})?"
_RING_FAIL = re.compile(r"radeon: ring (?:(\d{1,2}) )?test failed" + _VALUE)
_IB_PASS = re.compile(r"ib test (?:on ring (\d{1,2}) )?succeeded(?: in (\d{1,9}) usecs)?")
_IB_FAIL = re.compile(r"radeon: ib test failed" + _VALUE)
_IB_RING = re.compile(r"failed testing IB on (?:GFX ring|ring (\d{1,2})) \((-?\d{1,6})\)")
_LOCKED = re.compile(r"(?:cp|dma|vce) failed to lock ring (\d{1,2}) \((-?\d{1,6})\)")
_CAUSES = re.compile(
    r"fence wait (?:failed \(-?\d|timed out)|failed to (?:get|schedule) ib|"
    r"failed to (?:get scratch reg|lock (?:UVD )?ring)|cp isn't working|[Ff]ailed (?:UVD|VCE)|"
    r"failed initializing|Failed to load firmware|Direct firmware load for|"
    r"ib ring test failed|[Dd]isabling GPU acceleration|Fatal error during (?:GPU|modeset) init|GPU lockup|"
    r"ring \d{1,2} stalled for|(?:UVD|VCE) not responding, giving up"
)
_EXPLAINS = re.compile(r"Direct firmware load for")
"""A cause only where something failed: a file of this name is missing, and one of the older name may load."""
_PARAMETER = re.compile(r"/parameters/(uvd|vce):0$")
_SWITCHED_OFF = {"uvd": frozenset({UVD}), "vce": frozenset({VCE1, VCE2})}
_INITIALIZED = re.compile(r"Initialized radeon \d")
_NO_ACCELERATION = re.compile(r"[Dd]isabling GPU acceleration")


@dataclass(frozen=True, slots=True)
class Test:
    """One test as the log tells it. ``ring`` None: the line names none (old formats, some failures).

    ``microseconds``: the number of polls, which the driver prints as such. ``register``: the scratch
    register's offset when the ``value`` is of one; a value without it is of a word in RAM. ``code``: the
    negative errno of a test that the driver could not make, or whose end it waited for in vain.
    """

    ring: int | None
    passed: bool
    line: str
    number: int
    microseconds: int | None = None
    value: int | None = None
    register: int | None = None
    code: int | None = None

    @property
    def explanation(self) -> str:
        if self.passed:
            return ""
        if self.value is None and self.code is not None:
            return ring_values.explain_code(self.code)
        return ring_values.explain(self.value, register=self.register is not None)


@dataclass(frozen=True, slots=True)
class Report:
    """``rings`` and ``ibs``: the last word on each ring. ``causes``: lines that say why, first one first.

    ``switched_off``: rings that the driver was told to leave alone.
    """

    chip: Chip | None
    rings: dict[int, Test]
    ibs: dict[int, Test]
    causes: tuple[Message, ...]
    initialized: Message | None
    accelerated: bool
    switched_off: frozenset[int] = frozenset()

    @property
    def expected(self) -> frozenset[int] | None:
        rings = self.chip.rings if self.chip else None
        return None if rings is None else rings - self.switched_off

    @property
    def seen(self) -> bool:
        """Whether radeon said anything that a judgement can rest on."""
        return bool(self.chip or self.rings or self.ibs or self.initialized)

    def problems(self) -> list[str]:
        """What is wrong, the first cause first; empty: every expected ring passed both tests."""
        found = [_failed("ring", test) for test in self.rings.values() if not test.passed]
        found += [_failed("IB", test) for test in self.ibs.values() if not test.passed]
        for kind, tests in (("ring", self.rings), ("IB", self.ibs)):
            missing = sorted((self.expected or frozenset()) - tests.keys())
            if missing and not (kind == "IB" and not self.ibs and found):
                found.append(f"no {kind} test of {', '.join(map(ring_name, missing))} in the log")
        told = [cause.text for cause in self.causes if not _is_generic(cause)]
        if not found and self.accelerated:
            told = [text for text in told if not _EXPLAINS.search(text)]
        found += told[:3]
        if not self.accelerated:
            found.append("the driver disabled acceleration")
        return found


def ring_name(index: int) -> str:
    """``ring 3 (DMA)``."""
    return f"ring {index} ({RING_NAMES[index]})" if 0 <= index < len(RING_NAMES) else f"ring {index}"


def parse(log: bytes | str, device: str = "", parameters: bytes | str = "") -> Report:
    """The report of one card; ``device`` (``0000:01:00.0``) chooses among several where lines name theirs.

    ``parameters``: ``grep -H .`` over ``/sys/module/radeon/parameters``.
    """
    found = list(messages(log, device))
    chips = [chip for chip in detect(found) if chip.driver in ("radeon", "")]
    plain = owner(found) != "amdgpu"
    ours = [m for m in found if m.driver in ("radeon", "radeon_cp") or (plain and not m.driver)]
    rings, ibs = _tests(ours)
    causes = [m for m in ours if _CAUSES.search(m.text) and _concerns(m)][:MOST_ITEMS]
    return Report(
        chips[0] if chips else None,
        rings,
        ibs,
        tuple(causes[:100]),
        next((m for m in ours if _INITIALIZED.search(m.text)), None),
        not any(_NO_ACCELERATION.search(m.text) for m in ours),
        _switched_off(parameters),
    )


def _switched_off(parameters: bytes | str) -> frozenset[int]:
    named = (_PARAMETER.search(line) for line in lines(parameters))
    return frozenset[int]().union(*(_SWITCHED_OFF[hit[1]] for hit in named if hit))


def _tests(found: Iterable[Message]) -> tuple[dict[int, Test], dict[int, Test]]:
    """The last test of each ring. An IB failure names its ring only in the line after it (radeon_ib.c)."""
    rings: dict[int, Test] = {}
    ibs: dict[int, Test] = {}
    waiting: Test | None = None
    for m in found:
        if hit := _LOCKED.search(m.text):
            ring = int(hit[1])
            rings[ring] = Test(ring, False, m.raw, m.number, code=int(hit[2]))
        if "test" not in m.text:
            continue
        if hit := _RING_PASS.search(m.text):
            ring = int(hit[1] or 0)
            rings[ring] = Test(ring, True, m.raw, m.number, int(hit[2]))
        elif hit := _RING_FAIL.search(m.text):
            ring = int(hit[1] or 0)
            rings[ring] = Test(ring, False, m.raw, m.number, None, _hex(hit[3]), _hex(hit[2]))
        elif hit := _IB_PASS.search(m.text):
            ring = int(hit[1] or 0)
            ibs[ring] = Test(ring, True, m.raw, m.number, int(hit[2]) if hit[2] else None)
        elif hit := _IB_FAIL.search(m.text):
            waiting = Test(None, False, m.raw, m.number, None, _hex(hit[2]), _hex(hit[1]))
        elif hit := _IB_RING.search(m.text):
            ring = int(hit[1] or 0)
            told = waiting or Test(None, False, m.raw, m.number)
            code = int(hit[2])
            ibs[ring] = Test(ring, False, told.line, told.number, None, told.value, told.register, code)
            waiting = None
    if waiting is not None:
        ibs.setdefault(0, waiting)
    return rings, ibs


def _failed(kind: str, test: Test) -> str:
    where = ring_name(test.ring) if test.ring is not None else "a ring"
    value = "" if test.value is None else f" with 0x{test.value:08X}"
    return f"{kind} test of {where} failed{value}: {test.explanation}"


def _concerns(m: Message) -> bool:
    """A firmware load may be anyone's; the kernel's other drivers must not be taken for radeon."""
    return "firmware" not in m.text or "radeon" in m.raw or m.driver == "radeon"


def _is_generic(m: Message) -> bool:
    return bool(_NO_ACCELERATION.search(m.text)) or "ib ring test failed" in m.text


def _hex(text: str | None) -> int | None:
    return int(text, 16) if text else None


def video_lost(report: Report) -> bool:
    """Whether only UVD or VCE rings are missing or failed: pictures work, video decoding does not."""
    expected = report.expected or frozenset()
    bad = {r for r in expected if r not in report.rings or not report.rings[r].passed}
    bad |= {r for r in expected if r not in report.ibs or not report.ibs[r].passed}
    return bool(bad) and min(bad) >= UVD
