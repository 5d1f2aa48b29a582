"""The amdgpu driver's ring and IB tests, kernels 4.19 to 7.3, where success is silence.

Formats: ``amdgpu_ring.c``, ``amdgpu_ib.c``, ``amdgpu_device.c``, ``amdgpu_job.c``, ``amdgpu_mes.c``,
``uvd_v3_1.c``, ``sdma_v5_2.c`` below ``drivers/gpu/drm/amd/amdgpu``. A ring test that passes is told only
with ``drm.debug=1``; a failed one always. IB tests run in a worker 2 s after the probe
(``AMDGPU_RESUME_MS``), 1 s a ring at most, so an absence of errors means something only in a log that goes
on long enough after ``Initialized amdgpu``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers import ring_values
from boardwright.bringup.parsers.chips import Chip, detect, owner
from boardwright.bringup.parsers.dmesg import Message, message, messages
from boardwright.bringup.parsers.radeon import Test
from boardwright.bringup.parsers.text import text

IB_TESTS_AFTER = 2.0
"""Seconds from the probe to the IB tests; 1 s on top for each ring that does not answer."""

_RING = r"([a-z][a-z0-9_.]{1,40}|\d{1,2})"
_OUTCOMES = (
    ("ring", True, re.compile(rf"ring test on {_RING} succeeded(?: in (\d{{1,9}}) usecs)?")),
    ("ring", True, re.compile(rf"ring {_RING} test pass")),
    ("ib", True, re.compile(rf"ib test on (?:ring )?{_RING} succeeded(?: in (\d{{1,9}}) usecs)?")),
    ("ib", True, re.compile(rf"ring {_RING} ib test pass")),
    ("ring", False, re.compile(rf"(?:amdgpu: )?ring {_RING} test failed")),
    ("ring", False, re.compile(r"\b(UVD|VCE|kiq) ring test fail(?:ed)?\b")),
    ("ring", False, re.compile(rf"ring test on {_RING} failed")),
    ("ib", False, re.compile(rf"IB test failed on {_RING} ")),
    ("ib", False, re.compile(rf"ring {_RING} ib test failed")),
    ("ib", False, re.compile(r"failed testing IB on (?:ring )?(GFX|\d{1,2})(?: ring)? ")),
)
_CODE = re.compile(r"\((-\d{1,6})\)")
_VALUE = re.compile(ring_values.FORMAT)
_CAUSES = re.compile(
    r"(?:hw|sw|early)_init of IP block <[\w.-]{1,60}> failed|amdgpu_device_ip_init failed|"
    r"Fatal error during GPU init|finishing device|IB test timed out|ib ring test failed|"
    r"ring [\w.]{1,40} timeout|Problem resizing BAR0|Not enough PCI address space|PSP load|ID_LOAD_TOC|"
    r"GPU cannot access memory|failed to write reg|Direct firmware load for amdgpu|"
    r"failed to load .{0,60}firmware"
)
_EXPLAINS = re.compile(
    r"Problem resizing BAR0|Not enough PCI address space|Direct firmware load for|"
    r"failed to load .{0,60}firmware"
)
"""Causes only where something failed: the card works with a small BAR (``amdgpu_device_resize_fb_bar``), and
without firmware that it can do without."""
_INITIALIZED = re.compile(r"Initialized amdgpu \d")
_DEBUGFS = re.compile(r"ib ring tests (passed|failed)\b")


@dataclass(frozen=True, slots=True)
class Report:
    """``rings`` and ``ibs``: by ring name, the tests the log tells of; on a healthy card often none.

    ``asked``: debugfs ``amdgpu_test_ib`` said that all passed (True) or not; None: it was not asked.
    ``settled``: seconds the log goes on after the driver was initialised.
    """

    chip: Chip | None
    rings: dict[str, Test]
    ibs: dict[str, Test]
    causes: tuple[Message, ...]
    initialized: Message | None
    asked: bool | None
    settled: float

    @property
    def seen(self) -> bool:
        return bool(self.chip or self.rings or self.ibs or self.initialized or self.causes)

    @property
    def silent(self) -> bool:
        """Initialised and not one test told of: the driver's way to say that all is well."""
        return self.initialized is not None and not self.rings and not self.ibs

    @property
    def conclusive(self) -> bool:
        """Whether the absence of an IB failure says anything yet."""
        return self.asked is not None or self.settled >= IB_TESTS_AFTER + 1.0

    def problems(self) -> list[str]:
        found = []
        for kind, tests in (("ring", self.rings), ("IB", self.ibs)):
            for name, test in tests.items():
                if not test.passed:
                    found.append(f"{kind} test of {name} failed: {_why(test)}")
        last = []
        if self.asked is False:
            last.append("debugfs amdgpu_test_ib: the IB tests failed")
        if self.seen and self.initialized is None:
            last.append("the driver was not initialised")
        told = [m.text for m in self.causes]
        if not found and not last:
            told = [text for text in told if not _EXPLAINS.search(text)]
        return found + told[:4] + last


def parse(log: bytes | str, debugfs: bytes | str = "", device: str = "") -> Report:
    """``debugfs``: what ``/sys/kernel/debug/dri/N/amdgpu_test_ib`` gave, when it was read."""
    found = list(messages(log, device))
    rings: dict[str, Test] = {}
    ibs: dict[str, Test] = {}
    causes: list[Message] = []
    initialized, last = None, None
    plain = owner(found) == "amdgpu"
    for m in found:
        last = m.seconds if m.seconds is not None else last
        ours = m.driver == "amdgpu" or (not m.driver and (plain or "amdgpu" in m.text))
        if not ours or m.text.startswith("radeon:"):
            continue
        if "test" in m.text and (named := _test(m)) is not None:
            kind, name, test = named
            (rings if kind == "ring" else ibs)[name] = test
        elif _CAUSES.search(m.text) and len(causes) < 100:
            causes.append(m)
        elif initialized is None and _INITIALIZED.search(m.text):
            initialized = m
    chip = next((c for c in detect(found) if c.driver in ("amdgpu", "")), None)
    start = initialized.seconds if initialized else None
    settled = last - start if last is not None and start is not None else 0.0
    return Report(chip, rings, ibs, tuple(causes), initialized, _asked(debugfs), settled)


def _test(m: Message) -> tuple[str, str, Test] | None:
    for kind, passed, pattern in _OUTCOMES:
        if hit := pattern.search(m.text):
            polls = int(hit[2]) if pattern.groups > 1 and hit[2] else None
            word = _VALUE.search(m.text) if not passed else None
            value = int(word[2], 16) if word else None
            register = int(word[1], 16) if word and word[1] else None
            return kind, hit[1].lower(), Test(None, passed, m.raw, m.number, polls, value, register)
    return None


def _why(test: Test) -> str:
    if test.value is not None:
        return f"0x{test.value:08X}: {test.explanation}"
    code = _CODE.search(test.line)
    return ring_values.explain_code(int(code[1])) if code else message(test.line).text


def _asked(debugfs: bytes | str) -> bool | None:
    found = _DEBUGFS.search(text(debugfs, 4096))
    return None if found is None else found[1] == "passed"
