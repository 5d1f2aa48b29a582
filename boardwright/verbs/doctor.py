"""``invoke doctor``: what this host has and lacks, each with the way to get it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from boardwright.errors import BoardwrightError, ExitStatus


@dataclass(frozen=True, slots=True)
class Finding:
    """One question to the host: ``ok``, what was found, and what to do when it is not ok."""

    what: str
    ok: bool
    found: str
    hint: str = ""
    needed: bool = True
    """Whether a build needs it; what one way of flashing needs is told, and is no failure."""


def doctor(_root: Path, as_json: bool) -> int:
    """Ask every question; exit status 3 when an answer stands in the way of a build."""
    findings = [question() for question in QUESTIONS]
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            mark = "ok " if finding.ok else "NO " if finding.needed else "-- "
            print(f"{mark} {finding.what}: {finding.found}")
            if finding.hint and not finding.ok:
                print(f"    hint: {finding.hint}")
    return ExitStatus.OK if all(f.ok or not f.needed for f in findings) else ExitStatus.HOST


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python 3.11 or later", sys.version_info >= (3, 11), version, "install a newer python3")


def _machine() -> Finding:
    found = os.uname().machine
    hint = "the environments are locked for amd64 hosts; build on one"
    return Finding("an x86-64 host", found == "x86_64", found, hint)


def _program(name: str, package: str) -> Callable[[], Finding]:
    def question() -> Finding:
        found = shutil.which(name)
        return Finding(name, found is not None, found or "not found", f"install the package {package}")

    return question


def _for_flash(name: str, package: str, why: str) -> Callable[[], Finding]:
    def question() -> Finding:
        found = shutil.which(name)
        hint = f"{why}: apt install {package}"
        return Finding(f"{name} (flash)", found is not None, found or "not found", hint, needed=False)

    return question


def _libusb() -> Finding:
    from ctypes.util import find_library

    found = find_library("usb-1.0")
    hint = "for --to axdl over USB: apt install libusb-1.0-0"
    return Finding("libusb (flash)", found is not None, found or "not found", hint, needed=False)


def _sealing() -> Finding:
    from boardwright.build.sandbox import require

    try:
        require()
    except BoardwrightError as error:
        return Finding("sealing a step", False, error.message, error.hint or "")
    return Finding("sealing a step", True, "bwrap can")


def _emulation() -> Finding:
    from boardwright.build.roothost import is_registered

    handler = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
    hint = (
        "install qemu-user-static and binfmt-support; in a container: mount -t binfmt_misc binfmt_misc "
        "/proc/sys/fs/binfmt_misc && update-binfmts --enable qemu-aarch64"
    )
    try:
        lines = handler.read_text().splitlines()
    except OSError:
        return Finding("arm64 programs", False, "no handler qemu-aarch64", hint)
    flags = next((line for line in lines if line.startswith("flags")), "flags:")
    return Finding("arm64 programs", is_registered("aarch64"), f"qemu-aarch64 {lines[0]}, {flags}", hint)


def _mirrors() -> Finding:
    from boardwright.build.mirror import mirrors

    try:
        found = mirrors()
    except BoardwrightError as error:
        return Finding("a Debian mirror", False, error.message, error.hint or "")
    return Finding("a Debian mirror", bool(found), ", ".join(map(str, found)))


def _space() -> Finding:
    from boardwright.build.store import cache_directory

    cache = cache_directory()
    place = next(path for path in [cache, *cache.parents] if path.exists())
    free = shutil.disk_usage(place).free / 2**30
    hint = "set BOARDWRIGHT_CACHE to a larger disk"
    return Finding("8 GiB for the cache", free >= 8, f"{free:.1f} GiB free in {place}", hint)


QUESTIONS: list[Callable[[], Finding]] = [
    _python,
    _machine,
    _program("bwrap", "bubblewrap"),
    _program("mmdebstrap", "mmdebstrap"),
    _program("apt-get", "apt"),
    _sealing,
    _emulation,
    _mirrors,
    _space,
    _for_flash("zstd", "zstd", "to flash .img.zst"),
    _for_flash("xz", "xz-utils", "to flash .img.xz"),
    _for_flash("rkdeveloptool", "rkdeveloptool", "for --to rockusb"),
    _for_flash("ssh", "openssh-client", "for --to labgrid:PLACE"),
    _libusb,
]
