"""From power-on to a shell, as one wishes it: switch on, stop the loader, say something to it, boot, log in.

All stages share one budget. What is set in the loader holds for this boot only, and whether the kernel was
given the ``bootargs`` is asked of the kernel: a boot script that sets its own wins over them, silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from boardwright.console.budget import Budget
from boardwright.console.console import BootReport, Console
from boardwright.console.errors import BoardFailed, ConsoleError, ConsoleSilent
from boardwright.console.loader import Autoboot, Loader, interrupt

SIGN_OF_LIFE = 60.0
"""Seconds after power-on within which a working board and cable bring a first byte; RK3588's DRAM code
speaks within one, a board with a slow supply or an adapter of its own within ten."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """``autoboot``: how the countdown is stopped. ``commands``: for U-Boot, in order, each checked.

    ``bootargs``: for this boot only; ``boot`` is the command that leaves the prompt with them. Without any
    of these the loader is left alone. ``tell_apart``: after a silence, one power cycle shows whether the
    line still works.
    """

    autoboot: Autoboot = field(default_factory=Autoboot)
    commands: tuple[str, ...] = ()
    bootargs: str | None = None
    boot: str = "boot"
    tell_apart: bool = False

    @property
    def needs_loader(self) -> bool:
        return bool(self.commands) or self.bootargs is not None or self.boot != "boot"


def to_shell(
    console: Console,
    budget: float,
    strategy: Strategy,
    cycle: Callable[[], None] | None = None,
    *,
    switched_on: bool = False,
) -> BootReport:
    """Have ``console`` at a shell within ``budget`` seconds, which begin when the board is switched on.

    ``cycle`` switches it off and on; without it, or when it was ``switched_on`` already, the board is taken
    as it is. Raises what :meth:`Console.boot` and :func:`~boardwright.console.loader.interrupt` raise, and
    ``BoardFailed`` ("bootargs not taken") when the kernel runs with others.
    """
    if strategy.tell_apart and cycle is None:
        raise ValueError("telling a broken line from a silent board takes a power switch")
    if cycle is not None and not switched_on:
        power_on(console, cycle)
    shared = Budget(budget, console.channel.clock)
    try:
        if strategy.needs_loader:
            _through_loader(console, interrupt(console, shared.left, strategy.autoboot), strategy, shared)
        report = console.boot(shared.left)
    except BoardFailed as error:
        if strategy.tell_apart and cycle is not None and error.state.startswith("silent"):
            raise after_a_cycle(console, error, cycle) from None
        raise
    if strategy.bootargs is not None:
        check_bootargs(console, strategy.bootargs)
    return report


def power_on(console: Console, cycle: Callable[[], None]) -> None:
    """Switch the board off and on; what it does from now on is a start of its own, and no reset."""
    cycle()
    console.channel.discard()
    console.watch.restart()


def _through_loader(console: Console, loader: Loader, strategy: Strategy, shared: Budget) -> None:
    for command in strategy.commands:
        if shared.spent:
            raise console.verdict.out_of_time(shared.seconds)
        loader.run(command, seconds=shared.left)
    loader.boot(strategy.bootargs, strategy.boot)


def check_bootargs(console: Console, bootargs: str) -> None:
    """Raise ``BoardFailed`` unless every word of ``bootargs`` is on the running kernel's command line.

    Others may stand there too: the kernel's own ``CONFIG_CMDLINE``, and what the loader adds.
    """
    answer = console.run("cat /proc/cmdline")
    if answer.status != 0:  # init=/bin/sh: nobody has mounted it
        console.run("mount -t proc proc /proc")
        answer = console.run("cat /proc/cmdline")
    if answer.status != 0:
        raise ConsoleError(f"the kernel's command line cannot be read: {answer.output.strip()[-200:]!r}")
    there = answer.output.split()
    if missing := [word for word in bootargs.split() if word not in there]:
        raise BoardFailed(
            f"the kernel was not given {' '.join(missing)!r}, but {answer.output.strip()[:400]!r}",
            state="bootargs not taken",
            lines=console.verdict.lines,
            hint="a boot script sets its own bootargs (extlinux' append): load and start the kernel by hand",
        )


def after_a_cycle(
    console: Console, silence: BoardFailed, cycle: Callable[[], None]
) -> BoardFailed | ConsoleSilent:
    """What the silence was: the board's own when it speaks after a power cycle, or else the line's."""
    power_on(console, cycle)
    channel = console.channel
    since, end = channel.characters, channel.clock() + SIGN_OF_LIFE
    while channel.characters == since and (left := end - channel.clock()) > 0:
        channel.listen(min(1.0, left))
    if channel.characters > since:
        return BoardFailed(
            f"{silence.message}; the line works: after a power cycle the board spoke again",
            state=silence.state,
            findings=silence.findings,
            lines=silence.lines,
            hint=silence.hint,
        )
    error = ConsoleSilent(
        f"{silence.message}; and after a power cycle not one byte came in {SIGN_OF_LIFE:.0f} s",
        hint="so it is not this boot: look at the cable, the adapter, the board's supply and the switch",
    )
    error.lines = silence.lines
    return error
