"""A shell on another machine by ssh, and the bytes on its standard input."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass

from boardwright.errors import HostError


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, both streams, and its exit status."""

    output: str
    status: int

    @property
    def line(self) -> str:
        return self.output.strip()


class Ssh:
    """A ``Shell`` and a ``Carrier`` of flash/boarddisk.py; ``host``: as ssh takes it."""

    most = 2**26

    def __init__(self, host: str) -> None:
        self._host = host
        self._data: memoryview | bytes = b""

    def command(self, data: memoryview) -> str:
        self._data = data
        return "cat"

    def run(self, command: str, timeout: float = 30.0) -> Said:
        """Raises ``HostError`` when the machine is not reached."""
        data, self._data = self._data, b""
        # One shell, whatever the user's login shell there is.
        words = [
            "ssh",
            "-o",
            "BatchMode=yes",
            "--",
            self._host,
            f"LC_ALL=C exec sh -c {shlex.quote(command)}",
        ]
        try:
            done = subprocess.run(
                words,
                input=data,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except FileNotFoundError:
            raise HostError("ssh is not installed", hint="apt install openssh-client") from None
        except subprocess.TimeoutExpired:
            raise HostError(f"{self._host} did not answer within {timeout:.0f} s: {command[:60]}") from None
        text = done.stdout.decode(errors="replace")
        if done.returncode == 255:  # ssh's own (ssh(1), EXIT STATUS)
            raise HostError(
                f"{self._host} is not reached by ssh: {(text.strip().splitlines() or ['no word'])[-1][:200]}",
                hint="the exporter's host must take your key, and that user must be allowed to write disks",
            )
        return Said(text, done.returncode)
