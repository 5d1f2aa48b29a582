"""Watching lines go by: stages, milestones, failures, and a board that starts again by itself."""

from __future__ import annotations

from collections import Counter, deque

from boardwright.console.patterns import MILESTONES, Finding, Severity, Stage, classify, may_matter, milestone

_LONGEST_LINE = 4096
_RESET_AFTER = {
    "ddr": "autoboot",
    "spl": "autoboot",
    "u-boot": "autoboot",
    "bl31": "kernel",
    "kernel": "kernel",
}
"""A milestone that means a reset once another was passed. Not earlier: a burst of lost bytes makes U-Boot's
banner of its SPL's, and Axera's U-Boot starts BL31 itself (``axera_boot.c``)."""
_BANNERS = ("ddr", "spl", "u-boot")
_LOOP = 3
"""So often the same banner is a loop, however little was passed in between."""
_FEW = 4
_CONTEXT = 12
"""Lines kept to show with an error."""


class Watch:
    """``stage`` and ``milestones`` (name to seconds): how far the board came; ``findings``: what went wrong.

    ``paused``: while a command's output goes by, which may quote anything, nothing is concluded from it;
    the findings collect in ``suspects``.
    """

    def __init__(self) -> None:
        self.stage = Stage.OFF
        self.milestones: dict[str, float] = {}
        self.findings: list[Finding] = []
        self.suspects: list[Finding] = []
        self.paused = False
        self.last_line = ""
        self.recent: deque[tuple[float, str]] = deque(maxlen=_CONTEXT)
        """The last lines with their times: what shows the state."""
        self._rest = ""
        self._start: set[str] = set()
        self._repeats: Counter[str] = Counter()
        self._resets = 0

    def feed(self, text: str, seconds: float) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        matters = len(lines) < _FEW or may_matter("\n".join(lines))
        for line in lines if matters else lines[-_CONTEXT:]:
            self._line(line, seconds)
        if self._rest.startswith("(initramfs)"):  # a prompt, so no line feed follows
            self._line(self._rest, seconds)
            self._rest = ""
        elif "VECFCFECFCFVECFC" in self._rest:  # the ROM of AX650N sends no line feed either
            self.stage = max(self.stage, Stage.ROM)
            self._line(self._rest, seconds)
            self._rest = ""
        elif milestone(self._rest) == ("autoboot", Stage.LOADER):  # a countdown stays on its line
            self.milestones.setdefault("autoboot", seconds)

    def restart(self) -> None:
        """The board was switched off and on by us: what comes now is a start of its own, and no reset."""
        self._start.clear()
        self._repeats.clear()
        self._resets = 0
        self.stage, self.milestones, self.findings, self._rest = Stage.OFF, {}, [], ""

    @property
    def reset_under_test(self) -> Finding | None:
        """While paused: a reset that a later kernel line confirms; the quote of one line does not."""
        reset = next((f for f in self.suspects if f.name in ("unexpected reset", "boot loop")), None)
        return reset if reset is not None and len(self._start) > 1 else None

    @property
    def fatal(self) -> Finding | None:
        """The first finding that ends the boot."""
        return next((f for f in self.findings if f.severity is Severity.FATAL), None)

    def first_cause(self) -> Finding | None:
        """The earliest finding that is more than a note, or else the first note."""
        serious = [finding for finding in self.findings if finding.severity > Severity.NOTE]
        return next(iter(serious or self.findings), None)

    def pause(self) -> None:
        self.paused, self.suspects = True, []

    def resume(self, *, keep: bool) -> None:
        """End of a pause; ``keep`` when the command never ended, so that its suspects were real."""
        self.paused = False
        if keep:
            self.findings += self.suspects
        self.suspects = []

    def _line(self, line: str, seconds: float) -> None:
        if line.strip():
            self.last_line = line.strip()
            self.recent.append((seconds, line.rstrip()))
        finding = self._reset(line, seconds) or classify(line, seconds)
        if finding is not None:
            (self.suspects if self.paused else self.findings).append(finding)

    def _reset(self, line: str, seconds: float) -> Finding | None:
        reached = milestone(line)
        if reached is None:
            return None
        name, stage = reached
        again = self._again(name, line)
        if again:
            self._start.clear()
            self._repeats.clear()
            self._resets += 1
        self._start |= {name, "booting"} if "Booting Linux" in line else {name}
        self._repeats[name] += 1
        if (again and self._resets > 1) or (name in _BANNERS and self._repeats[name] >= _LOOP):
            kind = "boot loop"
        elif again:
            kind = "unexpected reset"
        else:
            if not self.paused:
                self.milestones.setdefault(name, seconds)
                self.stage = max(self.stage, stage)
            return None
        looped = any(f.name == "boot loop" for f in (*self.findings, *self.suspects))
        return None if looped else Finding(kind, Severity.FATAL, line.strip(), seconds)

    def _again(self, name: str, line: str) -> bool:
        """Whether this milestone can only be passed by a board that has started anew."""
        if name not in _RESET_AFTER or (name == "kernel" and not {"booting"} <= self._start):
            return False
        if name == "kernel" and "Booting Linux" not in line:
            return False  # the kernel shows two lines that name it
        furthest = max((MILESTONES.index(known) for known in self._start if known in MILESTONES), default=-1)
        return furthest >= MILESTONES.index(_RESET_AFTER[name])
