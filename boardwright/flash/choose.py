"""``--to``: the one target that is meant, or a refusal that names the candidates."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError
from boardwright.flash.devices import Device
from boardwright.schema.suggest import nearest

TYPED = 4
"""How many characters of a serial number are typed to confirm."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``device``: None for a plain file. ``declared``: its serial stands in ``local.yaml``."""

    path: Path
    device: Device | None = None
    declared: bool = False

    @property
    def word(self) -> str:
        """What is typed to confirm it; empty when nothing is lost by writing."""
        if self.device is None:
            return self.path.name if self.path.exists() and self.path.stat().st_size else ""
        return self.device.serial[-TYPED:] or self.device.name


@dataclass(frozen=True, slots=True)
class Remote:
    """What is written by way of something else: ``kind`` is one of :data:`REMOTE`."""

    kind: str
    where: str
    declared: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}"


REMOTE = {
    "rockusb": "LOCATION, or nothing: the only Rockchip board in a USB mode",
    "axdl": "PORT, or nothing: the only Axera board in download mode",
    "labgrid": "PLACE, with a USB-SD-Mux, SDWire or USB card reader",
    "console": "TARGET@DISK, such as serial:FT232R@mmcblk0",
}


def remote(to: str, declared: Mapping[str, str]) -> Remote | None:
    """``--to KIND:WHERE``, or a name of ``declared`` that stands for one; None for a disk or a file."""
    kind, _, where = declared.get(to, to).partition(":")
    if kind not in REMOTE or Path(to).exists():
        return None
    # A path by itself names nothing that another board could answer for; the others must say which.
    if not where and kind in ("labgrid", "console"):
        raise InputError(f"--to {kind}: expected {kind}:{REMOTE[kind]}")
    return Remote(kind, where, to in declared or f"{kind}:{where}" in declared.values())


def choose(to: str, declared: Mapping[str, str], devices: Sequence[Device]) -> Choice:
    """``to``: a path, a serial number, or a name of ``declared`` (name to serial).

    Raises ``InputError`` for none, for several, and for one that may not be written.
    """
    if to in declared:
        return _of_serial(declared[to], declared, devices, f"{to} ({declared[to]})")
    if "/" in to:
        return _of_path(Path(to), declared, devices)
    if not to:
        raise InputError("flash: where to?", hint=f"--to DEVICE; {suggestions(devices)}")
    if to in ("sd", "emmc"):
        raise InputError(
            f"--to {to}: local.yaml does not say which device that is",
            hint=f"add `devices: {{{to}: SERIAL}}` to local.yaml; {suggestions(devices)}",
        )
    return _of_serial(to, declared, devices, to)


def _of_serial(serial: str, declared: Mapping[str, str], devices: Sequence[Device], asked: str) -> Choice:
    matching = [device for device in devices if device.serial and device.serial == serial]
    if not matching:
        near = nearest(asked, [*declared, *(d.serial for d in devices if d.serial)])
        raise InputError(
            f"--to: no device with serial number {asked} is connected", hint=near or suggestions(devices)
        )
    if len(matching) > 1:
        raise InputError(
            f"--to: {len(matching)} devices have serial number {asked}: "
            + ", ".join(str(device.path) for device in matching),
            hint="give the path of one",
        )
    return _allowed(matching[0], declared)


def _of_path(path: Path, declared: Mapping[str, str], devices: Sequence[Device]) -> Choice:
    resolved = path.resolve()
    mode = resolved.stat().st_mode if resolved.exists() else None
    if mode is None:
        if resolved.is_relative_to("/dev") or not resolved.parent.is_dir():
            # Writing there would make a plain file in /dev, in memory, and call it a card.
            raise InputError(f"--to: there is no {path}", hint=suggestions(devices))
        return Choice(resolved)
    if stat.S_ISREG(mode):
        return Choice(resolved)
    if not stat.S_ISBLK(mode):
        raise InputError(f"--to: expected a disk or a file, found {path}, which is neither")
    for device in devices:
        if device.path == resolved:
            return _allowed(device, declared)
    whole = [str(d.path) for d in devices if resolved.name.startswith(d.name)]
    hint = f"the image is for a whole disk: {whole[0]}" if whole else suggestions(devices)
    raise InputError(f"--to: expected a whole disk, found {path}", hint=hint)


def _allowed(device: Device, declared: Mapping[str, str]) -> Choice:
    if device.refusals:
        raise InputError(f"{described(device)} is not written to: {'; '.join(device.refusals)}")
    return Choice(device.path, device, bool(device.serial) and device.serial in declared.values())


def described(device: Device) -> str:
    """``/dev/sda (SanDisk Ultra, 31.9 GB, usb, serial 4C53…)``."""
    parts = [
        device.model,
        f"{device.size / 1e9:.1f} GB",
        device.bus,
        f"serial {device.serial}" if device.serial else "no serial number",
    ]
    return f"{device.path} ({', '.join(part for part in parts if part)})"


def suggestions(devices: Sequence[Device]) -> str:
    """The devices that could be meant, for a hint."""
    possible = [described(device) for device in devices if not device.refusals]
    return f"could be written: {', '.join(possible)}" if possible else "no device could be written"


def confirm(choice: Choice, yes: bool, answer: str | None) -> None:
    """``answer``: what the user typed, None when nobody can be asked. Raises ``InputError``."""
    if choice.word:
        undeclared = f"the serial number of {described(choice.device)}" if choice.device else ""
        agree(choice.word, "" if choice.declared else undeclared, yes, answer)


def agree(word: str, undeclared: str, yes: bool, answer: str | None) -> None:
    """``word``: what was to be typed. ``undeclared``: what ``local.yaml`` lacks for ``--yes``."""
    if yes:
        if undeclared:
            raise InputError(
                f"--yes: {undeclared} is not in local.yaml",
                hint="declare it under `devices:`, or leave --yes out and type what is asked",
            )
        return
    if answer is None:
        raise InputError("flash: nobody is there to confirm", hint="--yes, with a device of local.yaml")
    if answer.strip() != word:
        raise InputError(f"flash: expected {word!r}, found {answer.strip()!r}; nothing was written")
