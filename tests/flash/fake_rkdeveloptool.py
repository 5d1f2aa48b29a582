"""A stand-in for rkdeveloptool and the board behind it: it prints, and ends, as the program does.

From ``main.cpp`` at commit 46bb4c0 (Debian's 1.32+git20210408): ``\\r\\n`` line ends, errors on stdout, some
in red, progress that moves the cursor up, exit status 1 (-0xFF) for a command that did not succeed.
State is ``state.json`` beside the storage file ``emmc``; the faults of a test stand in it.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

SECTOR = 512
TURN = 128 * SECTOR
UP, LINE = "\x1b[1A", "\x1b[2K"
LOADER = b"LDR "


class Board:
    """``mode``: Maskrom or Loader; ``loaded``: a loader runs. Faults: see the tests."""

    def __init__(self, directory: Path, size: int, **state: Any) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.emmc = directory / "emmc"
        self.emmc.write_bytes(b"\xaa" * size)
        self.set(devices=1, mode="Maskrom", loaded=False, **state)
        program = directory / "rkdeveloptool"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -SE {__file__} {directory} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def set(self, **state: Any) -> None:
        path = self.directory / "state.json"
        path.write_text(json.dumps({**self.state(), **state}))

    def state(self) -> dict[str, Any]:
        path = self.directory / "state.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def calls(self) -> list[str]:
        return (self.directory / "calls").read_text().splitlines()


def red(text: str) -> None:
    sys.stdout.write(f"\x1b[30;41m{text}\x1b[0m\r\n")


def out(text: str) -> None:
    sys.stdout.write(text + "\r\n")


def main(directory: Path, words: list[str]) -> bool:
    with (directory / "calls").open("a") as calls:
        calls.write(" ".join(words[:2]) + "\n")
    path = directory / "state.json"
    state = json.loads(path.read_text())
    command = words[0]
    if command == "ld":
        if not state["devices"]:
            out("not found any devices!")
        for number in range(state["devices"]):
            out(f"DevNo={number + 1}\tVid=0x2207,Pid=0x350b,LocationID={102 + number}\t{state['mode']}")
        return bool(state["devices"])
    if state["devices"] != 1:
        red("Did not find any rockusb device, please plug device in!" if not state["devices"]
            else "Found too many rockusb devices, please plug devices out!")  # fmt: skip
        return False
    if command == "db":
        return download(state, path, Path(words[1]))
    if state.get("forbidden"):
        out({"wl": "Write LBA", "rl": "Read LBA", "rfi": "Read Flash Info"}[command]
            + " quit, creating comm object failed!")  # fmt: skip
        return False
    ready = state["loaded"] or state["mode"] == "Loader"
    if command == "rfi":
        if not ready or state.get("no_storage"):
            out("Read Flash Info failed!")
            return False
        sectors = (directory / "emmc").stat().st_size // SECTOR
        out("Flash Info:\r\n\tManufacturer: SAMSUNG, value=00")
        out(f"\tFlash Size: {sectors // 2048} MB\r\n\tFlash Size: {sectors} Sectors")
        out("\tBlock Size: 512 KB\r\n\tPage Size: 2 KB\r\n\tECC Bits: 0\r\n\tAccess Time: 40")
        out("\tFlash CS: Flash<0> ")
        return True
    if command == "rd":
        out("Reset Device OK.")
        return True
    return {"wl": write, "rl": read}[command](directory, state, path, words, ready)


def download(state: dict[str, Any], path: Path, loader: Path) -> bool:
    if state["mode"] != "Maskrom":
        out("The device does not support this operation!")
        return False
    if loader.read_bytes()[:4] != LOADER:
        red("Opening loader failed, exiting download boot!")
        return False
    if state.get("forbidden"):
        red("Creating Comm Object failed!")
        return False
    out("Downloading bootloader...")
    sys.stdout.write(UP + LINE)
    if state.get("wrong_loader"):
        out("Downloading bootloader failed!")
        return False
    out("Downloading bootloader succeeded.")
    path.write_text(json.dumps({**state, "loaded": True}))
    return True


def write(directory: Path, state: dict[str, Any], path: Path, words: list[str], ready: bool) -> bool:
    data, at = Path(words[2]).read_bytes(), int(words[1], 0) * SECTOR
    data += bytes(-len(data) % SECTOR)
    with (directory / "emmc").open("r+b") as emmc:
        for position in range(0, len(data), TURN):
            turn = bytearray(data[position : position + TURN])
            first, last = state.get("broken", (0, 0))
            if not ready or (at + position < last and at + position + len(turn) > first):
                out("Write LBA failed!")
                return False
            flip = state.get("flip", -1) - at - position
            if 0 <= flip < len(turn) and state.get("flips", 0):
                turn[flip] ^= 1
                state["flips"] -= 1
                path.write_text(json.dumps(state))
            emmc.seek(at + position)
            emmc.write(turn)
            sys.stdout.write(UP + LINE if position else "")
            out(f"Write LBA from file ({(position + len(turn)) * 100 // len(data)}%)")
    if (left := state.get("gone_after")) is not None:
        path.write_text(json.dumps({**state, "gone_after": left - 1, "devices": int(left > 1)}))
    return True


def read(directory: Path, state: dict[str, Any], _: Path, words: list[str], ready: bool) -> bool:
    if not ready:
        out("Read LBA failed!")
        return False
    at, size = int(words[1], 0) * SECTOR, int(words[2], 0) * SECTOR
    with (directory / "emmc").open("rb") as emmc:
        emmc.seek(at)
        data = emmc.read(size)
    Path(words[3]).write_bytes(data[: len(data) // 2] if state.get("full_disk") else data)
    out("Read LBA to file (100%)")
    return True


if __name__ == "__main__":
    sys.exit(0 if main(Path(sys.argv[1]), sys.argv[2:]) else 1)
