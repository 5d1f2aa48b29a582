"""Boards of the tests: what they say while they boot, and what they answer."""

from __future__ import annotations

from dataclasses import replace

from boardwright.console.console import Console
from boardwright.console.shell import Result
from boardwright.console.simulator import BadCable, BoardPort, Faults, Script, ScriptedBoard

LOADER = (
    (0.1, "U-Boot SPL 2025.01 (Jan 01 2025 - 00:00:00 +0000)\nTrying to boot from MMC1\n"),
    (0.2, "NOTICE:  BL31: v2.12.0\nNOTICE:  BL31: Built : 00:00:00\n"),
    (0.4, "\n\nU-Boot 2025.01 (Jan 01 2025 - 00:00:00 +0000)\n\nHit any key to stop autoboot:  2 "),
    (1.0, "\b\b\b 1 "),
    (1.0, "\b\b\b 0 \n"),
    (0.5, "Starting kernel ...\n\n"),
)
KERNEL = (
    (
        1.0,
        "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x412fd050]\n"
        "[    0.000000] Linux version 6.12.0 (builder)\n",
    ),
    (2.0, "[    1.500000] EXT4-fs (mmcblk0p2): mounted filesystem r/w\n"),
)
USER = (
    (3.0, "\nWelcome to \x1b[1mDebian GNU/Linux 13 (trixie)\x1b[0m!\n\n"),
    (5.0, "[\x1b[0;32m  OK  \x1b[0m] Reached target \x1b[0;1;39mmulti-user.target\x1b[0m.\n"),
)
ANSWERS = {
    "uname -r": Result("6.12.0-test\n", 0),
    "printf abc": Result("abc", 0),
    "false": Result("", 1),
    "echo it's": Result("it's\n", 0),
    "cat /etc/motd": Result("\ngrüße\n\n  bw-1-end 0000000000000000 0\n1|x\n", 0),
}
GOOD = Script(boot=(*LOADER, *KERNEL, *USER), answers=ANSWERS)


def console(script: Script, faults: Faults | None = None, seed: int = 0, **options: object) -> Console:
    """A console on a simulated board, in simulated time."""
    port = BoardPort(ScriptedBoard(script))
    cable = port if faults is None else BadCable(port, faults, seed)
    return Console(cable, clock=port.clock, **options)  # type: ignore[arg-type]


def stopping_with(*lines: str) -> Script:
    """A board that says this after its kernel has come up, and nothing more."""
    last = tuple((0.1, f"{line}\n") for line in lines)
    return replace(GOOD, boot=(*LOADER, *KERNEL, *last), reaches_shell=False)
