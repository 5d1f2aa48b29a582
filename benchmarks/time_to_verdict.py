"""Seconds from the last a boot prints to the verdict, under QEMU: ours, and labgrid's QEMU and shell drivers.

Both boot the same image with the same QEMU, arguments and kernel, taken out of the image, in turns. The boot
ends when the prompt of the shell that logs itself in is whole; who reads the console notes when its bytes
came. Two times after that:

- ready: ours when the boot is reported, labgrid's when its ShellDriver is activated,
- answer: when ``uname -r`` was asked and answered, which is the verdict that a shell works.

DIRECTORY is an environment made from requirements-labgrid.lock. A busy machine slows both; the ratio stays.
Example: python benchmarks/time_to_verdict.py --board rock5b --variant quick --labgrid DIRECTORY
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from boardwright.build import sandbox
from boardwright.console.console import Console
from boardwright.console.transport import Port
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.schema.board import Emulation
from boardwright.targets import qemu
from boardwright.verbs.bringup import built
from boardwright.verbs.build import environment
from boardwright.verbs.common import request

ROOT = Path(__file__).parents[1]
PROMPT = b"root@rock5b:~# "
_OF_THE_DRIVER = {"-M": "machine", "-cpu": "cpu", "-m": "memory", "-kernel": "kernel", "-append": "append"}


class Times(NamedTuple):
    """Seconds: of the boot to its prompt, from there until ready, and until the first answer."""

    boot: float
    ready: float
    answer: float


class Tapped:
    """A port; ``prompted`` is when the boot's prompt was whole, by ``time.monotonic``."""

    def __init__(self, port: Port) -> None:
        self._port, self._said = port, b""
        self.prompted: float | None = None

    def read(self, seconds: float) -> bytes:
        data = self._port.read(seconds)
        self._said = (self._said + data)[-4096:]
        if self.prompted is None and PROMPT in self._said:
            self.prompted = time.monotonic()
        return data

    def write(self, data: bytes) -> None:
        self._port.write(data)

    def close(self) -> None:
        self._port.close()


def ours(image: Path, emulation: Emulation, root: Path) -> Times:
    with qemu.running(image, emulation, root, qemu.Options()) as machine:
        started, port = time.monotonic(), Tapped(machine)
        with Console(port) as console:
            console.boot(900)
            ready = time.monotonic()
            assert console.run("uname -r").status == 0
            answer = time.monotonic()
    assert port.prompted is not None
    return Times(port.prompted - started, ready - port.prompted, answer - port.prompted)


def labgrid(image: Path, emulation: Emulation, root: Path, environment_: Path) -> Times:
    with tempfile.TemporaryDirectory(prefix="bw-labgrid-") as name:
        directory = Path(name)
        asked, rest = {}, []
        words = iter(qemu._base(image, emulation, root, directory, qemu.Options())[1:])
        for word in words:
            if word in _OF_THE_DRIVER:
                asked[_OF_THE_DRIVER[word]] = next(words).replace(qemu._INSIDE, name)
            elif word == "-display":
                next(words)  # the driver's own: none
            else:
                rest.append(word)
        seal = sandbox.Seal(
            root=root,
            read_only={qemu._IMAGE: image.resolve().parent},
            writable={qemu._INSIDE: directory, name: directory},  # where labgrid's socket is
            variables={"TMPDIR": qemu._INSIDE},
        )
        program = directory / "qemu"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(sandbox.argv(seal, [qemu.PROGRAM]))} "$@"\n')
        program.chmod(0o755)
        told = directory / "machine.json"
        told.write_text(json.dumps({**asked, "rest": rest, "program": str(program)}))
        command = [environment_ / "bin/python", Path(__file__).with_name("labgrid_boot.py"), told]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "TMPDIR": name}
        )
    return Times(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--board", default="rock5b")
    parser.add_argument("--variant", default="quick")
    parser.add_argument("--labgrid", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    asked = request(ROOT, options.board, options.variant)
    image, _ = built(asked)
    root, emulation = environment(asked, QEMU_ENVIRONMENT), asked.context.board.emulation
    found: dict[str, list[Times]] = {"ours": [], "labgrid": []}
    for run in range(1, options.runs + 1):
        for way in found:
            times = (
                ours(image, emulation, root)
                if way == "ours"
                else labgrid(image, emulation, root, options.labgrid)
            )
            found[way].append(times)
            print(
                f"run {run}, {way}: prompt after {times.boot:.1f} s, then ready after {times.ready:.2f} s, "
                f"answer after {times.answer:.2f} s; load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    for what in ("ready", "answer"):
        own, others = (statistics.median(getattr(t, what) for t in found[way]) for way in found)
        print(f"{what}: ours {own:.2f} s, labgrid {others:.2f} s (medians), ratio {own / others:.2f}")


if __name__ == "__main__":
    main()
