"""One hunt: the board's image in QEMU, a program whose card memory is Device memory, its faults listed.

On the lab disks: the hunt library and the display stand-in (recipe ``lab``), a Mesa with its stand-in for a
card (recipe ``mesa-*``: drm-shim), and the user's files.
"""

from __future__ import annotations

import base64
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boardwright.bringup.bench import Bench, Options
from boardwright.console.console import Console
from boardwright.console.shell import LONGEST_COMMAND, Result, with_silent_input
from boardwright.errors import HostError, InputError
from boardwright.hunt import fixup, lab
from boardwright.hunt.fixup import FixedRun
from boardwright.hunt.report import Report, parse
from boardwright.schema.board import Board

DIRECTORY = "/run/lab"
HUNT_LIBRARY = "libalign-hunt.so"
MEMORY = 256 * 2**20
"""Bytes of card memory: the BAR of the cards that fit the Rock-5B's window."""
_LIBRARIES = f"{DIRECTORY}/mesa/usr/lib/aarch64-linux-gnu"
_AMDGPU = ("amdgpu", "AMDGPU_GPU_ID")
_RADEON = ("radeon", "RADEON_GPU_ID")
GPUS: Mapping[str, tuple[str, str]] = {"turks": _RADEON, "verde": _RADEON, "polaris10": _AMDGPU}
"""Cards the stand-ins know, each with the stand-in's driver and the variable that names the card to it:
r600 over radeon, radeonsi over radeon (as on the reference board), radeonsi over amdgpu."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """What is run, on what. ``own_mesa``: the Mesa on the disk, rather than the image's, is the one examined.

    ``seconds``: how long the program may run. ``variables``: for its environment, over ours.
    ``fixup``: run it again, alone, with the kernel's alignment_fixup on.
    """

    program: str
    gpu: str = "verde"
    own_mesa: bool = True
    seconds: int = 600
    variables: Mapping[str, str] = field(default_factory=dict)
    fixup: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """``fixup``: the second run, without the hunt library, when it was asked for."""

    report: Report
    status: int
    output: str
    fixup: FixedRun | None = None


def hunt(
    image: Path,
    board: Board,
    manifest: Mapping[str, Any],
    qemu_root: Path,
    disks: Mapping[str, Path],
    out: Path,
    what: Hunt,
) -> Outcome:
    """Boot, run, collect. ``disks``: tarballs ``lab``, ``mesa`` and perhaps ``files``.

    Left in ``out``: ``console.cast``, ``report.jsonl`` and ``output.txt``. Raises ``HostError`` when the lab
    is at fault, or when the program ended without having touched card memory: that proves nothing.
    """
    out.mkdir(parents=True, exist_ok=True)
    options = Options(qemu=lab.options(disks, MEMORY))
    with Bench(image, board, manifest, qemu_root, out / "console.cast", options) as bench:
        console = bench.console
        bar = lab.bar(console)
        if bar is None:
            raise HostError("the board in QEMU has no BAR to lay card memory in")
        for disk in disks:
            if not lab.unpack(console, disk, DIRECTORY if disk == "lab" else f"{DIRECTORY}/{disk}"):
                raise HostError(f"the board in QEMU sees no disk {disk!r}")
        if what.fixup and not fixup.available(console):
            raise InputError(
                "--fixup: the kernel of this image has no alignment_fixup",
                hint="the board's compiled kernel has it; Debian's, of the variant quick, does not",
            )
        done = _run(console, what, environment(what, bar))
        report = _fetched(console, f"{DIRECTORY}/report.jsonl")
        fixed = _fixed(console, what, bar) if what.fixup else None
    (out / "report.jsonl").write_text(report)
    (out / "output.txt").write_text(done.output)
    return judged(Outcome(parse(report), done.status, done.output, fixed))


def _fixed(console: Console, what: Hunt, bar: str) -> FixedRun:
    """Run the program without the hunt library; what it would die of is the kernel's to make good."""
    alone = environment(what, bar)
    alone["LD_PRELOAD"] = " ".join(w for w in alone["LD_PRELOAD"].split() if HUNT_LIBRARY not in w)
    fixup.switch(console, True)
    before = fixup.counters(console)
    done = _run(console, what, alone)
    after = fixup.counters(console)
    fixup.switch(console, False)
    return FixedRun(done.status, after.since(before), done.output)


def judged(outcome: Outcome) -> Outcome:
    """The outcome, when it says something. Raises ``HostError`` for no site in a run that proves nothing."""
    if outcome.report.sites:
        return outcome
    tail = " / ".join(outcome.output.strip().splitlines()[-3:]) or "it said nothing"
    if outcome.status != 0:
        raise HostError(f"the program ended with status {outcome.status}, and no fault: {tail}")
    if not outcome.report.mappings:
        raise HostError(
            f"the program never mapped card memory, so it proves nothing: {tail}",
            hint="is it a GL program, and did it find the card? see output.txt",
        )
    return outcome


def environment(what: Hunt, bar: str) -> dict[str, str]:
    """The variables of the program: what is preloaded, where card memory is, which Mesa and which card."""
    driver, card = GPUS[what.gpu]
    preload = [
        f"{DIRECTORY}/{HUNT_LIBRARY}",
        f"{DIRECTORY}/libkms-standin.so",
        f"{_LIBRARIES}/lib{driver}_noop_drm_shim.so",
    ]
    found = {
        "LD_PRELOAD": " ".join(preload),
        "ALIGN_HUNT_REPORT": f"{DIRECTORY}/report.jsonl",
        "DRM_SHIM_MEMORY": bar,
        card: what.gpu,
        # The kernel that runs here says nothing of card memory; on the board it is its to say.
        "MESA_DEVICE_MEMORY": "on",
        "MESA_SHADER_CACHE_DISABLE": "1",
    }
    if what.own_mesa:
        found |= {
            "LD_LIBRARY_PATH": _LIBRARIES,
            "GBM_BACKENDS_PATH": f"{_LIBRARIES}/gbm",
            "LIBGL_DRIVERS_PATH": f"{_LIBRARIES}/dri",
            "__EGL_VENDOR_LIBRARY_FILENAMES": f"{DIRECTORY}/mesa/usr/share/glvnd/egl_vendor.d/50_mesa.json",
        }
    return found | dict(what.variables)


def script(program: str, variables: Mapping[str, str]) -> list[str]:
    """The lines of the script that runs the program."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return [
        f"cd {DIRECTORY}/files 2>/dev/null || cd {DIRECTORY}",
        *exports,
        with_silent_input(f"{{ {program}; }}", f"{DIRECTORY}/silent"),
    ]


def _run(console: Console, what: Hunt, variables: Mapping[str, str]) -> Result:
    path = f"{DIRECTORY}/hunt.sh"
    console.run(f": > {path}")
    for line in script(what.program, variables):
        command = f"echo {shlex.quote(line)} >> {path}"
        if len(command) > LONGEST_COMMAND:
            raise InputError(f"too long for a line of the console: {line[:80]!r}…")
        console.run(command)
    return console.run(f"timeout {what.seconds} sh {path}", what.seconds + 60.0)


def _fetched(console: Console, path: str) -> str:
    """A file of the board; over a console that carries text, so compressed and in base64."""
    if console.run(f"test -s {path}").status != 0:
        return ""
    packed = console.run(f"gzip -c {path} | base64", 300.0)
    try:
        return zlib.decompress(base64.b64decode(packed.output), wbits=31).decode()
    except (ValueError, zlib.error) as error:
        raise HostError(f"the report did not come over whole: {error}") from None
