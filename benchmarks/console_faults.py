# ruff: noqa: E402
"""Simulated boots over a cable that loses one byte in a hundred, and bursts: verdicts, and false ones.

Half of the boards are good; half have a fault of the product, from a panic to a wrong kernel. A verdict is a
pass (shell reached, every answer as it must be) or a failure of the product (a fault by its name, another
answer); else the way ended without one. Beside it, on the same boards and cables: a login as pexpect's users
write it (``expect``, then send a line), and labgrid's ShellDriver. All in simulated time.
DIRECTORY is an environment made from requirements-labgrid.lock.
Example: python benchmarks/console_faults.py --boots 500 --labgrid DIRECTORY
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pexpect.expect
import pexpect.spawnbase

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/console"), str(Path(__file__).parent)]

from board_faults import CASES, Case, console
from real_shell import RealShell, fake_programs

from boardwright.console import bootscript
from boardwright.console.cable import BadCable, Faults
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard
from boardwright.errors import BoardwrightError, ExitStatus

BAD = ("panic", "oops", "initramfs shell", "emergency mode", "boot loop", "silent kernel", "out of memory")
WRONG = "wrong kernel"
SCRIPTS = [bootscript.load(p) for p in sorted((ROOT / "tests/console/scripts").glob("*.yaml"))]


class Ended(NamedTuple):
    """``outcome``: ``pass``, ``fail`` or ``error`` (no verdict); ``seconds`` of the board's time."""

    outcome: str
    words: str
    seconds: float


Way = Callable[[Script, Script, Faults, int], Ended]


def cable(drop: float) -> Faults:
    """Loses a share ``drop`` of the bytes one by one, and half as many again in bursts of up to 24."""
    return Faults(drop=drop, burst=drop / 50, burst_length=24)


def boards(boots: int, seed: int) -> list[tuple[str, Script]]:
    """Name of the fault ("" for none) and the board."""
    chance, found = random.Random(seed), []
    for number in range(boots):
        script = SCRIPTS[number % len(SCRIPTS)]
        script = replace(
            script, chatter=("[   88.0] usb 1-1: reset high-speed USB device number 2",) * (number % 3)
        )
        name = "" if number % 4 < 2 else chance.choice((*BAD, WRONG))
        found.append((name, script if name in ("", WRONG) else CASES[name].change(script)))
    return found


def each(way: Way, asked: argparse.Namespace) -> Iterator[Ended]:
    for number, (name, script) in enumerate(boards(asked.boots, asked.seed)):
        expected = SCRIPTS[number % len(SCRIPTS)]
        if name == WRONG:
            script = replace(script, answers={**script.answers, "uname -r": Result("6.6.0\n", 0)})
        yield way(script, expected, cable(asked.drop), asked.seed * 10**6 + number)


def ours(script: Script, expected: Script, faults: Faults, seed: int) -> Ended:
    with console(script, Case(cable=faults), seed) as board:
        try:
            board.boot(7200)
            for command, answer in expected.answers.items():
                if board.run(command, 600) != answer:
                    return Ended("fail", f"{command}: another answer", board.channel.seconds)
            return Ended("pass", "", board.channel.seconds)
        except BoardwrightError as error:
            outcome = "fail" if error.exit_status is ExitStatus.PRODUCT else "error"
            return Ended(outcome, error.message, board.channel.seconds)


def plain(programs: Path, script: Script, expected: Script, faults: Faults, seed: int) -> Ended:
    """Log in, ask for the kernel release between two prompts; what is not what was expected is a failure."""
    shell = RealShell(programs, script.answers["uname -r"].output)
    port = BoardPort(ScriptedBoard(replace(script, session=shell)))
    line = BadCable(port, faults, seed, port.clock)
    spawn: pexpect.spawnbase.SpawnBase[str] = pexpect.spawnbase.SpawnBase(encoding="utf-8")

    def expect(pattern: str, seconds: float) -> str | None:
        expecter = pexpect.expect.Expecter(spawn, pexpect.expect.searcher_re([re.compile(pattern)]))
        end, index = port.now + seconds, expecter.existing_data()
        while index is None and port.now < end:
            if data := line.read(end - port.now):
                index = expecter.new_data(data.decode("utf-8", "replace"))
        return None if index is None else str(spawn.before)

    if not script.autologin:
        if expect("login: ", 300) is None:
            return Ended("error", "no login", port.now)
        line.write(f"{script.user}\n".encode())
        if expect("assword: ", 30) is None:
            return Ended("error", "no password prompt", port.now)
        line.write(f"{script.password}\n".encode())
    if expect(r"[#$] ", 300) is None:
        return Ended("error", "no prompt", port.now)
    line.write(b"uname -r\n")
    if (said := expect(r"# ", 30)) is None:
        return Ended("error", "no answer", port.now)
    right = expected.answers["uname -r"].line in said
    return Ended("pass" if right else "fail", f"said {said!r}", port.now)


def labgrid(asked: argparse.Namespace) -> list[Ended]:
    command = [str(asked.labgrid / "bin/python"), str(Path(__file__).with_name("labgrid_login.py"))]
    for name in ("boots", "seed", "drop"):
        command += [f"--{name}", str(getattr(asked, name))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Ended(*json.loads(line)) for line in done.stdout.splitlines()]


def tell(title: str, names: list[str], ended: list[Ended], shown: int) -> None:
    """One line of figures, and up to ``shown`` boots that ended wrong."""
    good = [e.outcome for name, e in zip(names, ended, strict=True) if not name]
    bad = [e.outcome for name, e in zip(names, ended, strict=True) if name]
    took = statistics.median(
        e.seconds for name, e in zip(names, ended, strict=True) if name not in ("", WRONG)
    )
    verdicts = len(ended) - (good + bad).count("error")
    print(
        f"{title}: {len(ended)} boots, {verdicts} verdicts ({100 * verdicts / len(ended):.1f} %); "
        f"of {len(good)} good boards {good.count('pass')} pass, {good.count('fail')} false failures, "
        f"{good.count('error')} without a verdict; of {len(bad)} faulty ones {bad.count('fail')} found, "
        f"{bad.count('pass')} false passes, {bad.count('error')} without a verdict; "
        f"a fault that stops the boot ends the wait after {took:.0f} s of the board's time (median)"
    )
    for number, (name, e) in enumerate(zip(names, ended, strict=True)):
        if shown and e.outcome != ("fail" if name else "pass"):
            print(f"  boot {number} ({name or 'good'}): {e.outcome}, {e.words[:150]}")
            shown -= 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--boots", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drop", type=float, default=0.01, help="share of bytes lost one by one")
    parser.add_argument("--labgrid", type=Path, help="an environment made from requirements-labgrid.lock")
    parser.add_argument("--show", type=int, default=3, help="boots that ended wrong, of each way")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    names = [name for name, _ in boards(asked.boots, asked.seed)]
    tell("ours", names, list(each(ours, asked)), asked.show)
    with tempfile.TemporaryDirectory() as directory:
        way = partial(plain, fake_programs(Path(directory)))
        tell("pexpect, expect and send", names, list(each(way, asked)), asked.show)
    if asked.labgrid is not None:
        tell("labgrid's ShellDriver", names, labgrid(asked), asked.show)


if __name__ == "__main__":
    main()
