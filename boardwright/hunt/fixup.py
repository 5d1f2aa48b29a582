"""The same program under the kernel's own remedy, the topic alignment-fixup, and what its counters say.

The kernel counts in ``/sys/kernel/debug/alignment_fixup`` (patches/kernel/alignment-fixup); the counters stay
over the life of the kernel, so a run is the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from boardwright.console.console import Console
from boardwright.errors import HostError

SWITCH = "/proc/sys/abi/alignment_fixup"
COUNTERS = "/sys/kernel/debug/alignment_fixup"


@dataclass(frozen=True, slots=True)
class Counters:
    """Accesses emulated, and faults that were not, since the kernel started."""

    fixed: int
    unfixed: int

    def since(self, before: Counters) -> Counters:
        return Counters(self.fixed - before.fixed, self.unfixed - before.unfixed)


@dataclass(frozen=True, slots=True)
class FixedRun:
    """How the program ended with the fixup on, and what the kernel counted meanwhile."""

    status: int
    counters: Counters
    output: str


def available(console: Console) -> bool:
    """Whether this kernel has the topic."""
    return console.run(f"test -w {SWITCH} && test -r {COUNTERS}/fixed").status == 0


def switch(console: Console, on: bool) -> None:
    """Turn the fixup on or off. Raises ``HostError`` when the kernel does not take it."""
    done = console.run(f"echo {int(on)} > {SWITCH} && cat {SWITCH}")
    if done.line != str(int(on)):
        raise HostError(f"the kernel's alignment_fixup cannot be switched: {done.line or 'nothing was said'}")


def counters(console: Console) -> Counters:
    words = console.run(f"cat {COUNTERS}/fixed {COUNTERS}/unfixed").output.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise HostError(
            f"the kernel's alignment_fixup counters are not two numbers: {' '.join(words)[:80]!r}"
        )
    return Counters(*map(int, words))
