"""labgrid's QEMUDriver and ShellDriver on the machine that time_to_verdict.py prepared, timed; one JSON line.

Runs in labgrid's own environment (requirements-labgrid.lock), and takes no part of boardwright.
"""

from __future__ import annotations

import json
import select
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attr
import yaml
from labgrid import Environment
from labgrid.driver import QEMUDriver
from labgrid.factory import target_factory

PROMPT = b"root@rock5b:~# "


@target_factory.reg_driver
@attr.s(eq=False)
class TappedQEMUDriver(QEMUDriver):  # type: ignore[misc]
    """labgrid's own driver, which notes when the boot's prompt was whole; before it waits to read more."""

    said = b""
    prompted: float | None = None

    def _read(self, size: int = 1, timeout: float = 10, max_size: int | None = None) -> bytes:
        select.select([self._clientsocket], [], [], timeout)
        came = time.monotonic()
        data: bytes = super()._read(size, 0, max_size)
        self.said = (self.said + data)[-4096:]
        if self.prompted is None and PROMPT in self.said:
            self.prompted = came
        return data


def described(machine: dict[str, Any]) -> dict[str, Any]:
    """The environment file of the machine, as labgrid's users write it."""
    qemu = {
        "qemu_bin": "qemu", "machine": machine["machine"], "cpu": machine["cpu"], "memory": machine["memory"],
        "kernel": "kernel", "boot_args": machine["append"], "extra_args": shlex.join(machine["rest"]),
        "display": "fb-headless",
    }  # fmt: skip
    # Without the escape of bracketed paste, which readline puts before its prompt, the driver's own check of
    # the prompt times out (labgrid issue 969).
    shell = {
        "prompt": r"(?:\x1b\[\?2004h)?root@[\w-]+:[^ ]+ ", "login_prompt": " login: ",
        "username": "root", "login_timeout": 900,
    }  # fmt: skip
    drivers = {"TappedQEMUDriver": qemu, "ShellDriver": shell}
    return {
        "targets": {"main": {"drivers": drivers}},
        "images": {"kernel": machine["kernel"]},
        "tools": {"qemu": machine["program"]},
    }


def main() -> None:
    machine = json.loads(Path(sys.argv[1]).read_text())
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(described(machine), file, sort_keys=False)  # a driver after what it binds to
        file.flush()
        target = Environment(file.name).get_target("main")
        qemu, shell = (
            target.get_driver(QEMUDriver, activate=False),
            target.get_driver("ShellDriver", activate=False),
        )
        target.activate(qemu)
        qemu.on()
        started = time.monotonic()
        target.activate(shell)
        ready = time.monotonic()
        _, _, status = shell.run("uname -r")
        answer = time.monotonic()
        qemu.off()
    assert status == 0
    print(json.dumps([qemu.prompted - started, ready - qemu.prompted, answer - qemu.prompted]))


if __name__ == "__main__":
    main()
