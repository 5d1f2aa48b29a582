"""Watching lines go by: stages, milestones, failures, and a board that starts again by itself."""

from __future__ import annotations

from boardwright.console.patterns import MILESTONES, Finding, Severity, Stage, classify, milestone

_LONGEST_LINE = 4096
_NO_WAY_BACK = MILESTONES.index("u-boot")
"""From here on, an earlier or the same milestone means that the board was reset."""


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
        self._rest = ""

    def feed(self, text: str, seconds: float) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._line(line, seconds)
        if self._rest.startswith("(initramfs)"):  # a prompt, so no line feed follows
            self._line(self._rest, seconds)
            self._rest = ""

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
        finding = self._reset(line, seconds) or classify(line, seconds)
        if finding is not None:
            (self.suspects if self.paused else self.findings).append(finding)

    def _reset(self, line: str, seconds: float) -> Finding | None:
        reached = milestone(line)
        if reached is None:
            return None
        name, stage = reached
        furthest = max((MILESTONES.index(known) for known in self.milestones), default=-1)
        again = furthest >= _NO_WAY_BACK and MILESTONES.index(name) <= furthest
        if name == "kernel" and furthest == MILESTONES.index("kernel"):
            again = "Booting Linux" in line  # the kernel shows two lines that name it
        if name == "systemd" and again:
            return None  # the initramfs and the root have one each
        if again:
            return Finding("unexpected reset", Severity.FATAL, line.strip(), seconds)
        if not self.paused:
            self.milestones.setdefault(name, seconds)
            self.stage = max(self.stage, stage)
        return None
