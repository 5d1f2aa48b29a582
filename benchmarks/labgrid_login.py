# ruff: noqa: E402
"""labgrid's ShellDriver on the simulated boards of console_faults.py, in simulated time, as JSON lines.

Runs in labgrid's own environment (requirements-labgrid.lock); ``console_faults.py --labgrid DIRECTORY``
starts it there. The board's shell is a real one, so that labgrid's functions and markers run as they arrived.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import attr
from console_faults import Ended, Way, arguments, each
from labgrid import Target
from labgrid.driver import ShellDriver
from labgrid.driver.common import Driver
from labgrid.driver.consoleexpectmixin import ConsoleExpectMixin
from labgrid.factory import target_factory
from labgrid.protocol import ConsoleProtocol
from pexpect import TIMEOUT
from real_shell import RealShell, fake_programs

from boardwright.console.cable import BadCable, Faults
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard

LOGIN_TIMEOUT = 300


@target_factory.reg_driver
@attr.s(eq=False)
class SimulatedConsole(ConsoleExpectMixin, Driver, ConsoleProtocol):  # type: ignore[misc]
    """labgrid's console on a cable of ours. ``cable`` and ``clock`` are set before it is activated."""

    txdelay = attr.ib(default=0.0)
    txchunk = attr.ib(default=1)
    cable: Any = None
    clock: Any = None

    def _read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes:  # noqa: ARG002
        end = self.clock() + timeout
        while True:
            if data := bytes(self.cable.read(end - self.clock())):
                return data
            if self.clock() >= end:
                raise TIMEOUT(f"Timeout of {timeout:.2f} seconds exceeded")

    def _write(self, data: bytes) -> int:
        self.cable.write(data)
        return len(data)


def login(programs: Path) -> Way:
    def way(script: Script, expected: Script, faults: Faults, seed: int) -> Ended:
        release = script.answers["uname -r"].output
        port = BoardPort(ScriptedBoard(replace(script, session=RealShell(programs, release))))
        time.monotonic = time.time = port.clock  # labgrid and pexpect wait in the board's time
        time.sleep = lambda seconds: setattr(port, "now", port.now + seconds)
        target = Target("board")
        console = SimulatedConsole(target, "console")
        console.cable, console.clock = BadCable(port, faults, seed, port.clock), port.clock
        shell = ShellDriver(
            target, "shell", prompt=r"root@[\w-]+:[^ ]+ ", login_prompt=" login: ", username=script.user,
            password=script.password, login_timeout=LOGIN_TIMEOUT,
        )  # fmt: skip
        try:
            target.activate(shell)
            said, _, status = shell.run("uname -r")
        except Exception as error:  # it has no word for whose fault it is
            return Ended("error", f"{type(error).__name__}: {str(error).splitlines()[:1]}", port.now)
        right = status == 0 and said == [expected.answers["uname -r"].line]
        return Ended("pass" if right else "fail", f"said {said}, status {status}", port.now)

    return way


def main() -> None:
    logging.disable(logging.CRITICAL)
    asked = arguments()
    with tempfile.TemporaryDirectory() as directory:
        for ended in each(login(fake_programs(Path(directory))), asked):
            print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main()
