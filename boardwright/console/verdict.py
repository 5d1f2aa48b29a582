"""From what was seen to the right error: whose fault it is, its name, and the lines that show it."""

from __future__ import annotations

from collections.abc import Callable

from boardwright.console.channel import Channel
from boardwright.console.errors import (
    BoardFailed,
    ConsoleError,
    ConsoleGarbled,
    ConsoleSilent,
    ConsoleSlow,
)
from boardwright.console.patterns import TIMED_OUT, Finding, Severity, Stage
from boardwright.console.watch import Watch
from boardwright.errors import BoardwrightError

LAST_WORDS = 3.0
"""Seconds to go on listening after a fatal line: a panic's call trace follows it."""
_LOOP_WATCH = 60.0
"""Seconds at most to see whether a board that was reset once is reset again."""
_BUSY = 2.0
_RATES = "1500000 (Rockchip), 115200 (most others, and Axera)"


class Verdict:
    """Judges the state of one console. ``silence`` and ``slowdown``: see Console."""

    def __init__(self, channel: Channel, watch: Watch, silence: float, slowdown: Callable[[], float]) -> None:
        self.channel, self.watch = channel, watch
        self._silence, self._slowdown = silence, slowdown

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"{seconds:9.3f}  {line}" for seconds, line in self.watch.recent)

    def failed(
        self, fatal: Finding | None, message: str = "", state: str = "failed"
    ) -> BoardFailed | ConsoleSlow:
        """Listen to the last words, then name the first cause."""
        self.channel.settle(LAST_WORDS, 2 * LAST_WORDS)
        if fatal is not None and fatal.name == "unexpected reset":
            self._watch_for_a_loop(fatal)
        watch = self.watch
        findings = tuple(watch.findings) + tuple(watch.suspects)
        cause = watch.first_cause() or fatal
        if (busy := self._slowdown()) >= _BUSY and (cause is None or cause.name in TIMED_OUT):
            reason = message or f"the board did not reach a shell (stage {watch.stage}): {cause}"
            return ConsoleSlow(
                f"{reason}; the host is {busy:.0f} times overloaded, so this says nothing about the board",
                hint="run it again on a quieter host",
            )
        if fatal is not None and (cause is None or cause.severity is Severity.NOTE):
            cause = fatal
        parts = [message or f"the board did not reach a shell (stage {watch.stage})"]
        if cause is not None:
            parts.append(str(cause))
        if fatal is not None and fatal != cause:
            parts.append(f"then {fatal}")
        if (loop := next((f for f in findings if f.name == "boot loop"), None)) and loop not in (
            cause,
            fatal,
        ):
            parts.append(f"then {loop}")
        notes = [f for f in findings if f.severity is Severity.NOTE and f != cause]
        name = state if cause is None or cause.severity is Severity.NOTE else cause.name
        if loop and name == "unexpected reset":
            name = loop.name
        return BoardFailed(
            "; ".join(parts),
            state=name,
            findings=findings,
            lines=self.lines,
            hint=f"before that: {notes[0]}" if notes else None,
        )

    def fell_silent(self) -> BoardwrightError:
        if not self.channel.heard:
            return ConsoleSilent(
                f"not one byte in {self.channel.quiet_for:.0f} s since power-on",
                hint="is the board powered, the cable on the right pins, the port the right one?",
            )
        if self.is_garbled():
            return self.garbled()
        marker = next(reversed(self.watch.milestones), None)
        error = self.failed(
            None,
            f"the board fell silent for {self.channel.silent_for:.0f} s at stage {self.watch.stage}, "
            f"after {self.watch.last_line[:120]!r}",
            state=f"silent after {marker}" if marker else "silent",
        )
        if marker == "starting kernel" and error.hint is None:
            error.hint = "it may run on with another console: see stdout-path and console= in its bootargs"
        return error

    def out_of_time(self, budget: float) -> BoardwrightError:
        if not self.channel.heard:
            return self.fell_silent()
        if self.is_garbled():
            return self.garbled()
        if (cause := self.watch.first_cause()) is not None and cause.severity > Severity.NOTE:
            return self.failed(cause, f"no shell within {budget:.0f} s")
        return ConsoleSlow(
            f"no shell within the budget of {budget:.0f} s; stage {self.watch.stage}, "
            f"last line {self.watch.last_line[:120]!r}",
            hint="the board was still talking: give a larger budget, or a less busy host",
        )

    def is_garbled(self) -> bool:
        """Whether what came last makes no sense, or nothing ever did."""
        odd = self.channel.garbled / max(self.channel.characters, 1)
        nothing_else = self.watch.stage is Stage.OFF and odd > 0.2
        return nothing_else or self.channel.plausibility.garbage

    def garbled(self) -> ConsoleGarbled:
        """Bytes that are no text: named a wrong baud rate, the one cause that does it to all of them."""
        since = "" if self.watch.stage is Stage.OFF else f" after stage {self.watch.stage} was read well"
        error = ConsoleGarbled(
            f"wrong baud rate, or noise: {self.channel.garbled} of {self.channel.characters} characters "
            f"cannot be decoded{since}",
            hint=f"compare with console.baud in board.yaml; usual rates: {_RATES}",
        )
        error.state, error.lines = "wrong baud", self.lines
        return error

    def gone(self, command: str) -> BoardwrightError:
        """The shell does not answer any more: the board's fault if it said so, else the line's."""
        suspects = [f for f in self.watch.suspects if f.severity > Severity.NOTE]
        if suspects:
            error = self.failed(suspects[0], f"the board failed during {command!r}")
            if isinstance(error, BoardFailed) and error.state in ("unexpected reset", "boot loop"):
                error.state = "reset under test"
            return error
        return self.unusable(f"the console does not answer any more, since {command!r}")

    def unusable(self, message: str) -> ConsoleError:
        kind = ConsoleGarbled if self.channel.quiet_for < self._silence else ConsoleError
        error = kind(message, hint="see the transcript; check cable, adapter, baud rate and other readers")
        error.lines = self.lines
        return error

    def _watch_for_a_loop(self, reset: Finding) -> None:
        """A second reset tells a loop from one reset; it comes as soon after the first as that came."""
        end = self.channel.clock() + min(1.5 * reset.seconds, _LOOP_WATCH)
        while (left := end - self.channel.clock()) > 0 and self.channel.quiet_for < LAST_WORDS * 5:
            if any(f.name == "boot loop" for f in (*self.watch.findings, *self.watch.suspects)):
                return
            self.channel.listen(min(left, 1.0))
