"""A board of a shared lab: a labgrid place, taken for the run, with its serial port and its power switch.

labgrid's own client does the talking (tested with 26.0): it is a program of the lab's choice, with the lab's
configuration, and its fork of pyserial cannot live in one environment with pyserial. The serial port is the
place's ``NetworkSerialPort``, which labgrid's exporter serves by ser2net over RFC 2217.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from boardwright.console.reopening import ReopeningPort
from boardwright.errors import HostError
from boardwright.targets.power import Power

CLIENT = "BOARDWRIGHT_LABGRID_CLIENT"
"""Environment variable: the client's path when it is not in ``PATH``."""
_SECONDS = 60.0
_BLOCK = re.compile(r"^Acquired resource '[^\n]*:\n((?:^[ {][^\n]*\n?)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lab:
    """``coordinator``: HOST[:PORT]; empty for the client's own choice (``LG_COORDINATOR``)."""

    place: str
    coordinator: str = ""

    def client(self, *words: str) -> str:
        """What labgrid-client says. Raises ``HostError`` with its own words when it fails."""
        program = os.environ.get(CLIENT, "labgrid-client")
        where = ("-x", self.coordinator) if self.coordinator else ()
        command = [program, *where, "-p", self.place, *words]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise HostError(
                "expected the program labgrid-client",
                hint=f"install labgrid in an environment of its own and name its client in {CLIENT}",
            ) from None
        except subprocess.TimeoutExpired:
            raise HostError(f"labgrid-client {' '.join(words)} did not end within {_SECONDS:.0f} s") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise HostError(
                f"labgrid, place {self.place!r}, {' '.join(words)}: {said[-1] if said else 'no word'}"
            )
        return done.stdout


class PlacePower:
    """The place's power switch, by whichever of labgrid's power drivers fits it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def on(self) -> None:
        self._lab.client("power", "on")

    def off(self) -> None:
        self._lab.client("power", "off")


@contextlib.contextmanager
def acquired(lab: Lab) -> Iterator[Lab]:
    """The place is ours for a ``with``, and free afterwards, whatever happens; another's is refused."""
    lab.client("acquire")
    try:
        yield lab
    finally:
        lab.client("release")


@contextlib.contextmanager
def connected(
    lab: Lab, baud: int = 0, patience: float = 30.0
) -> Iterator[tuple[ReopeningPort, Power | None]]:
    """The place's serial port, and its power switch when it has one. ``baud`` 0: as the exporter says."""
    with acquired(lab):
        resources = parse_resources(lab.client("show"))
        url, speed = serial_url(resources, lab.place)
        power = PlacePower(lab) if any("Power" in str(r["cls"]) for r in resources) else None
        port = ReopeningPort(url, baud or speed, patience=patience)
        try:
            yield port, power
        finally:
            port.close()


def parse_resources(text: str) -> list[Mapping[str, Any]]:
    """The acquired resources in what ``labgrid-client show`` prints: Python's own form of a dictionary."""
    found: list[Mapping[str, Any]] = []
    for match in _BLOCK.finditer(text):
        try:
            value = ast.literal_eval(match.group(1).strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict) and "cls" in value and isinstance(value.get("params"), dict):
            found.append(value)
    return found


def serial_url(resources: list[Mapping[str, Any]], place: str) -> tuple[str, int]:
    """URL and baud rate of the one ``NetworkSerialPort``. Raises ``HostError`` when there is none."""
    for resource in resources:
        parameters = resource["params"]
        if resource["cls"] == "NetworkSerialPort" and parameters.get("port"):
            protocol = parameters.get("protocol", "rfc2217")
            scheme = "socket" if protocol == "raw" else "rfc2217"
            speed = int(parameters.get("speed") or 115200)
            return f"{scheme}://{parameters['host']}:{parameters['port']}", speed
    names = ", ".join(str(r["cls"]) for r in resources) or "no resource"
    raise HostError(
        f"expected a NetworkSerialPort in the place {place!r}, found {names}",
        hint="see labgrid-client show; the exporter must offer a RawSerialPort or USBSerialPort",
    )


_MUXES = ("SDMux", "SDWire")


def has_mux(lab: Lab) -> bool:
    """Whether the place's card is switched between board and host: by a USB-SD-Mux or an SDWire."""
    classes = [str(resource["cls"]) for resource in parse_resources(lab.client("show"))]
    return any(mux in name for name in classes for mux in _MUXES)


def storage(lab: Lab, seconds: float = 30.0) -> tuple[str, str]:
    """Host and path of the place's card reader, once a card is there. Raises ``HostError``.

    After the mux has switched the exporter takes some seconds to tell of the new disk.
    """
    kinds = (*_MUXES, "MassStorage")
    end = time.monotonic() + seconds
    while True:
        resources = parse_resources(lab.client("show"))
        found = [r["params"] for r in resources if any(kind in str(r["cls"]) for kind in kinds)]
        for parameters in found:
            if parameters.get("path"):
                return str(parameters["host"]), str(parameters["path"])
        if not found or time.monotonic() > end:
            names = ", ".join(str(r["cls"]) for r in resources) or "no resource"
            raise HostError(
                "expected a NetworkUSBSDMuxDevice or NetworkUSBMassStorage with a card in the place "
                f"{lab.place!r}, found {names}",
                hint="is there a card in it? labgrid-client show tells its path",
            )
        time.sleep(0.5)
