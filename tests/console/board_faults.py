"""Every fault of a board or a cable, as a change to a script or to a cable, with the outcome it must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardwright.console.cable import BadCable, Faults
from boardwright.console.console import Console
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.yaml"))
SHELL = "shell"
CHATTER = ("[   41.0] usb 1-1: new high-speed USB device", "[   42.0] root@rock5b:~# ", "[   43.0] x login: ")


@dataclass(frozen=True, slots=True)
class Case:
    """``expected``: ``shell``, or the states that may be named."""

    expected: tuple[str, ...] = (SHELL,)
    change: Callable[[Script], Script] = lambda script: script
    cable: Faults = field(default_factory=Faults)
    silence: float = 120.0


def kernel_at(script: Script) -> int:
    return next(i for i, (_, text) in enumerate(script.boot) if "Booting Linux" in text)


def after_kernel(*lines: str, until: bool = False) -> Callable[[Script], Script]:
    """These lines once the kernel runs; ``until``: the boot goes on after them."""

    def change(script: Script) -> Script:
        at = kernel_at(script) + 1
        said = tuple((0.2, f"{line}\n") for line in lines)
        rest = script.boot[at:] if until else ()
        return replace(script, boot=(*script.boot[:at], *said, *rest), reaches_shell=until)

    return change


def again(times: int, *lines: str) -> Callable[[Script], Script]:
    """The whole boot ``times`` more, from its first line, after the kernel came up."""

    def change(script: Script) -> Script:
        assert script.loader is not None
        head = script.boot[: kernel_at(script) + 1]
        first = (*head, *((0.1, f"{line}\n") for line in lines))
        return replace(script, boot=(*first, *(first * (times - 1)), *script.boot), reaches_shell=True)

    return change


def loader(**change: object) -> Callable[[Script], Script]:
    def changed(script: Script) -> Script:
        assert script.loader is not None
        return replace(script, loader=replace(script.loader, **change))  # type: ignore[arg-type]

    return changed


def only(*texts: str) -> Callable[[Script], Script]:
    return lambda script: replace(
        script, boot=tuple((0.3, text) for text in texts), loader=None, reaches_shell=False
    )


def carriage_returns(script: Script) -> Script:
    """CR LF CR, as drivers send that translate twice."""
    return replace(script, boot=tuple((t, text.replace("\n", "\r\n\r")) for t, text in script.boot))


CASES: dict[str, Case] = {
    "no fault": Case(),
    # the cable
    "drop 0.1 %": Case(cable=Faults(drop=0.001)),
    "drop 1 %": Case(cable=Faults(drop=0.01)),
    "bursts of losses": Case(cable=Faults(burst=0.0005)),
    "double 0.1 %": Case(cable=Faults(double=0.001)),
    "flip 0.1 %": Case(cable=Faults(flip=0.001)),
    "reads of one byte": Case(cable=Faults(largest_read=1)),
    "stalls": Case(cable=Faults(stall=0.3)),
    "vanishes and returns": Case(cable=Faults(lost_after=700, away=3.0)),
    "vanishes": Case(("port lost",), cable=Faults(lost_after=700)),
    "a second reader": Case((SHELL, "garbled", "console unusable", "slow"), cable=Faults(stolen=0.5)),
    "wrong baud": Case(("wrong baud",), cable=Faults(baud=(1500000, 115200))),
    "wrong baud, slower sender": Case(("wrong baud",), cable=Faults(baud=(115200, 1500000))),
    "no cable": Case(("off",), change=only()),
    # the loader
    "autoboot 0 s": Case(change=loader(seconds=0)),
    "loader at its prompt already": Case(change=loader(seconds=-1)),
    "loader without a boot device": Case(
        ("loader prompt",),
        change=only("\nU-Boot 2025.01 (x)\nDRAM:  8 GiB\n", "** Unable to read file /Image **\n=> "),
    ),
    "stops in SPL": Case(
        ("loader gave up",),
        change=only("\nU-Boot SPL 2025.01 (x)\n", "SPL: failed to boot from all boot devices\n"),
    ),
    "please reset": Case(
        ("loader gave up",),
        change=only("\nU-Boot 2025.01 (x)\n", "### ERROR ### Please RESET the board ###\n"),
    ),
    "loops in SPL": Case(("boot loop",), change=only(*["\nU-Boot SPL 2025.01 (x)\nTrying MMC1\n"] * 8)),
    "ROM without an image": Case(("rom found no image",), change=only("VECFCFECFCF" * 6)),
    "loader refuses an image": Case(
        ("image refused by the loader",),
        change=only("\nU-Boot 2020.04 (x)\nDRAM:  2 GiB\n", "kernel image header verify failed\n"),
    ),
    "silent after starting kernel": Case(
        ("silent after starting kernel", "silent after bl31"),
        change=lambda s: replace(s, boot=s.boot[: kernel_at(s)], reaches_shell=False),
    ),
    # the kernel
    "panic": Case(
        ("kernel panic",),
        change=after_kernel("[    2.0] Kernel panic - not syncing: Attempted to kill init!"),
    ),
    "oops": Case(
        ("oops",),
        change=after_kernel(
            "[    2.0] Internal error: Oops: 0000000096000004 [#1] SMP",
            "[    2.1] Kernel panic - not syncing: Oops: Fatal exception",
        ),
    ),
    "hung task": Case(
        ("hung task",),
        change=after_kernel("[  242.0] INFO: task swapper/0:1 blocked for more than 120 seconds."),
    ),
    "out of memory": Case(
        ("out of memory",), change=after_kernel("[   90.0] Out of memory: Killed process 1 (systemd)")
    ),
    "initramfs shell": Case(
        ("root not mounted",),
        change=after_kernel("Gave up waiting for root file system device.", "(initramfs) "),
    ),
    "emergency mode": Case(
        ("emergency mode",),
        change=after_kernel('You are in emergency mode. After logging in, type "journalctl"'),
    ),
    "watchdog reset": Case(("unexpected reset",), change=again(1)),
    "boot loop": Case(("boot loop",), change=again(3)),
    "panic and loop": Case(
        ("kernel panic",), change=again(3, "[    2.0] Kernel panic - not syncing: Attempted to kill init!")
    ),
    "silent kernel": Case(("silent after kernel",), change=after_kernel("[    2.0] random: crng init done")),
    # login and shell
    "prompt inside the log": Case(change=after_kernel("[    5.0] x: root@rock5b:~# ", until=True)),
    "kernel lines inside prompts": Case(change=lambda s: replace(s, chatter=CHATTER)),
    "escape sequences": Case(change=lambda s: replace(s, escapes=True)),
    "CR LF CR": Case(change=carriage_returns),
    "no echo": Case(change=lambda s: replace(s, echo=False)),
    "login flushes its input": Case(change=lambda s: replace(s, autologin=False, login_flush=True)),
    "up already": Case(change=lambda s: replace(s, boot=(), loader=None)),
}


def console(script: Script, case: Case, seed: int = 1, **options: object) -> Console:
    """A console on the changed board behind the bad cable, in simulated time."""
    changed = case.change(script)
    port = BoardPort(ScriptedBoard(changed))
    cable = BadCable(port, case.cable, seed, port.clock)
    return Console(
        cable,
        clock=port.clock,
        user=changed.user,
        password=changed.password,
        silence=case.silence,
        **options,  # type: ignore[arg-type]
    )
