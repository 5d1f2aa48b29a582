# ruff: noqa: E402
"""Simulated boots over a cable that loses one byte in a hundred, and bursts: verdicts, and false ones.

Half of the boards are good; half have a fault of the product, from a panic to a wrong kernel. A verdict is a
pass (shell reached, every answer as it must be) or a failure of the product; else it is an error of the lab.
Beside it: a login as pexpect's users write it (``expect``, then send a line), on the same boards and cables.
All in simulated time. Example: python benchmarks/console_faults.py --boots 500
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pexpect.expect
import pexpect.spawnbase

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/console")]

from board_faults import CASES, Case, console

from boardwright.console import bootscript
from boardwright.console.cable import BadCable, Faults
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard
from boardwright.errors import BoardwrightError, ExitStatus

CABLE = Faults(drop=0.01, burst=0.0002, burst_length=24)
BAD = ("panic", "oops", "initramfs shell", "emergency mode", "boot loop", "silent kernel", "out of memory")
WRONG = "wrong kernel"


def boards(boots: int, scripts: list[Script], seed: int) -> list[tuple[str, Script]]:
    """Name of the fault ("" for none) and the board."""
    chance, found = random.Random(seed), []
    for number in range(boots):
        script = scripts[number % len(scripts)]
        script = replace(
            script, chatter=("[   88.0] usb 1-1: reset high-speed USB device number 2",) * (number % 3)
        )
        name = "" if number % 4 < 2 else chance.choice((*BAD, WRONG))
        found.append((name, script if name in ("", WRONG) else CASES[name].change(script)))
    return found


def with_another_kernel(script: Script) -> Script:
    return replace(script, answers={**script.answers, "uname -r": Result("6.6.0\n", 0)})


def ours(script: Script, expected: Script, wrong: bool, seed: int) -> tuple[str, str]:
    """``pass``, ``fail`` or ``error``, and its words."""
    if wrong:
        script = with_another_kernel(script)
    with console(script, Case(cable=CABLE), seed) as board:
        try:
            board.boot(7200)
            for command, answer in expected.answers.items():
                if board.run(command, 600) != answer:
                    return "fail", f"{command}: another answer"
            return "pass", ""
        except BoardwrightError as error:
            return ("fail" if error.exit_status is ExitStatus.PRODUCT else "error"), error.message


def plain(script: Script, expected: Script, wrong: bool, seed: int) -> tuple[str, str]:
    """Log in, ask for the kernel release between two prompts; a timeout is called a failure of the board."""
    if wrong:
        script = with_another_kernel(script)
    port = BoardPort(ScriptedBoard(script))
    cable = BadCable(port, CABLE, seed, port.clock)
    spawn: pexpect.spawnbase.SpawnBase[str] = pexpect.spawnbase.SpawnBase(encoding="utf-8")

    def expect(pattern: str, seconds: float) -> str | None:
        expecter = pexpect.expect.Expecter(spawn, pexpect.expect.searcher_re([re.compile(pattern)]))
        end, index = port.now + seconds, expecter.existing_data()
        while index is None and port.now < end:
            if data := cable.read(end - port.now):
                index = expecter.new_data(data.decode("utf-8", "replace"))
        return None if index is None else str(spawn.before)

    if not script.autologin:
        if expect("login: ", 600) is None:
            return "fail", "no login"
        cable.write(f"{script.user}\n".encode())
        if expect("assword: ", 30) is None:
            return "fail", "no password prompt"
        cable.write(f"{script.password}\n".encode())
    if expect(r"[#$] ", 600) is None:
        return "fail", "no prompt"
    cable.write(b"exec sh\n")
    expect(r"# ", 30)
    cable.write(b"uname -r\n")
    said = expect(r"# ", 30)
    want = expected.answers["uname -r"].output.strip()
    return ("pass" if said and want in said else "fail"), f"said {said!r}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--boots", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    scripts = [bootscript.load(p) for p in sorted((ROOT / "tests/console/scripts").glob("*.yaml"))]
    for title, way in (("ours", ours), ("pexpect's own login", plain)):
        seen: Counter[str] = Counter()
        for number, (name, script) in enumerate(boards(asked.boots, scripts, asked.seed)):
            expected = scripts[number % len(scripts)]
            outcome, words = way(script, expected, name == WRONG, asked.seed * 10**6 + number)
            seen[outcome] += 1
            false = (outcome == "pass" and name) or (outcome == "fail" and not name)
            seen[f"false {outcome}"] += bool(false)
            if way is ours and (false or outcome == "error"):
                print(f"  boot {number} ({name or 'good'}): {outcome}, {words[:150]}")
        verdicts = seen["pass"] + seen["fail"]
        print(
            f"{title}: {asked.boots} boots, {verdicts} verdicts ({100 * verdicts / asked.boots:.1f} %), "
            f"{seen['false pass']} false passes, {seen['false fail']} false product failures, "
            f"{seen['error']} lab errors"
        )


if __name__ == "__main__":
    main()
