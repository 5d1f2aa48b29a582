"""``invoke flash --to KIND:WHERE``: what is written by way of a board, its USB mode or a lab."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build.progress import short
from boardwright.build.store import cache_directory
from boardwright.errors import InputError
from boardwright.flash.choose import TYPED, Remote, described
from boardwright.flash.journal import Journal, record
from boardwright.flash.progress import Progress
from boardwright.flash.run import flash
from boardwright.flash.source import Image, find
from boardwright.verbs.common import request, say
from boardwright.verbs.flash_request import Options, Written, agreed, image_path, read_back

if TYPE_CHECKING:
    from boardwright.console.console import Console
    from boardwright.flash.boarddisk import Carrier

_SHELL_SECONDS = 600.0
"""From power-on, or from now, to a shell."""
LINE = "line"
"""``--serve`` of it: no network."""


def write(root: Path, options: Options, far: Remote) -> Written:
    """Raises as ``flash.run.flash`` does, and ``InputError``."""
    kinds: dict[str, Callable[[Path, Options, Remote], Written]] = {
        "rockusb": _rockusb,
        "axdl": _axdl,
        "console": _console,
        "labgrid": _labgrid,
    }
    return kinds[far.kind](root, options, far)


def _rockusb(root: Path, options: Options, far: Remote) -> Written:
    from boardwright.flash import rockusb

    image = find(image_path(root, options))
    board = rockusb.the_board(far.where)
    lines = [f"The eMMC of the board {board} will be overwritten with {image.path.name}."]
    agreed(options, far.declared, lines, "where it is", board.location)
    loader = Path(options.loader) if options.loader else None
    medium = rockusb.opened(board, loader, image.bmap.image_size, say)
    try:
        done = flash(image, medium, _record(image, "rockusb", board.location, str(medium.size)), Progress())
    finally:
        medium.close()
    target = {"kind": "rockusb", "location": board.location, "mode": board.mode, "size": medium.size}
    return read_back(image, done, f"the board at {board.location}", target)


def _axdl(root: Path, options: Options, far: Remote) -> Written:
    """The whole package, with its partition table. AXDL cannot read: nothing is read back."""
    from boardwright.vendor import axdl
    from boardwright.vendor.axdl_job import prepare
    from boardwright.vendor.axera_package import Package

    path = _package(root, options)
    lines = [f"The eMMC of the board in download mode will be overwritten with {path.name}."]
    agreed(options, far.declared, lines, "the package's name", path.name)
    with Package(path) as package:
        job = prepare(package)  # before the board waits, which it does for some 10 s
        say("waiting for the board: hold BOOT and tap RST")
        with contextlib.closing(axdl.connect(far.where)) as port:
            done = axdl.send(port, job, progress=Progress())
    text = (
        f"{short(path)} was taken by the board: {len(done.images)} images, {done.sent / 1e6:.0f} MB in "
        f"{done.seconds:.1f} s; each block's sum was right, nothing can be read back over AXDL"
    )
    return Written(path, {"read_back": False, **asdict(done)}, text, {"kind": "axdl", "port": far.where})


def _package(root: Path, options: Options) -> Path:
    if options.image:
        path = Path(options.image)
        if not path.is_file():
            raise InputError(f"there is no package {path}")
        return path
    out = request(root, options.board, options.variant).out / "vendor"
    if packages := sorted(out.glob("*.axp")):
        return packages[0]
    raise InputError(f"there is no package in {short(out)}", hint="invoke build --vendor FILE.axp makes it")


def _console(root: Path, options: Options, far: Remote) -> Written:
    """A disk of a board that runs, from its own shell; never the one it runs from."""
    from boardwright.console.channel import pace_of
    from boardwright.console.console import Console
    from boardwright.console.transcript import Transcript
    from boardwright.flash import boarddisk
    from boardwright.verbs import targets
    from boardwright.verbs.bringup import PASSWORD

    word, at, name = far.where.rpartition("@")
    where = targets.parse(word) if at and name else None
    if where is None or where.kind not in (targets.SERIAL, targets.LABGRID):
        raise InputError(
            f"--to: expected console:serial:PORT@DISK or console:labgrid:PLACE@DISK, found {far}"
        )
    image, asked = find(image_path(root, options)), request(root, options.board, options.variant)
    words = asked.context.board.console
    connect = targets.connect(
        where, words.baud, options.power, options.coordinator, cycle=bool(options.power)
    )
    assert connect is not None
    cast = asked.out / "flash" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.cast"
    with contextlib.ExitStack() as stack:
        title = f"flash {asked.board_name} on {where.kind}:{where.where}"
        transcript = stack.enter_context(Transcript(cast, title, raw=cast.with_suffix(".raw")))
        say(f"waiting for the board's shell; transcript {short(cast)}")
        console = Console(
            connect(stack), transcript=transcript, pace=pace_of(words), password=os.environ.get(PASSWORD)
        )
        console.boot(_SHELL_SECONDS)
        device = boarddisk.the_disk(name, boarddisk.disks(console, image.bmap.image_size))
        lines = [f"The board's {described(device)} will be overwritten with {image.path.name}. It holds:"]
        lines += [f"  {content}" for content in device.contents or ("nothing that is known",)]
        what = "the end of its serial number" if device.serial else "its name"
        # A name such as mmcblk0 may be another disk's after the next start; a serial number is not.
        declared = far.declared and name == device.serial
        agreed(options, declared, lines, what, device.serial[-TYPED:] or device.name)
        carrier = _carrier(stack, console, options.serve, image, words.baud)
        boarddisk.still(console, device)
        medium = boarddisk.BoardDisk(console, device, carrier)
        known = (device.serial, str(device.size)) if device.serial else (far.where,)
        kept = _record(image, "console", *known)
        try:
            done = flash(image, medium, kept, Progress())
        finally:
            medium.close()
        console.channel.write("exit\n")  # our shell; the login behind it goes on
    target = {"kind": "console", "through": f"{where.kind}:{where.where}", "path": str(device.path)}
    return read_back(image, done, f"the board's {device.path}", target | asdict(device))


def _labgrid(root: Path, options: Options, far: Remote) -> Written:
    """The card of a labgrid place, on the exporter's host; the board has it afterwards if there is a mux."""
    from boardwright.flash import boarddisk
    from boardwright.flash.ssh import Ssh
    from boardwright.targets import labgrid

    image = find(image_path(root, options))
    with labgrid.acquired(labgrid.Lab(far.where, options.coordinator)) as lab:
        if muxed := labgrid.has_mux(lab):
            lab.client("sd-mux", "host")
        host, path = labgrid.storage(lab)
        shell = Ssh(host)
        device = boarddisk.the_disk(path, boarddisk.disks(shell, image.bmap.image_size))
        lines = [f"{described(device)} on {host} will be overwritten with {image.path.name}."]
        agreed(options, far.declared, lines, "the place's name", far.where)
        boarddisk.still(shell, device)
        medium = boarddisk.BoardDisk(shell, device, shell)
        kept = _record(image, "labgrid", far.where, host, str(device.size), device.serial)
        try:
            done = flash(image, medium, kept, Progress())
        finally:
            medium.close()
        if muxed:
            lab.client("sd-mux", "dut")
    target = {"kind": "labgrid", "place": far.where, "host": host, "path": str(device.path)}
    return read_back(image, done, f"the card of {far.where}", target | asdict(device))


def _carrier(stack: contextlib.ExitStack, console: Console, serve: str, image: Image, baud: int) -> Carrier:
    from boardwright.flash.line import Line
    from boardwright.flash.serve import Network

    if serve != LINE:
        network = Network(console, serve)
        stack.callback(network.close)
        return network
    megabytes = image.bmap.mapped_bytes / 1e6
    say(f"over the line: {megabytes:.0f} MB, less what gzip saves, at {baud / 25e6:.3f} MB/s at best")
    return Line(console)


def _record(image: Image, *target: str) -> Journal:
    return record(cache_directory() / "flash", image.bmap, *target)
