"""One job budget for everything that runs: GNU make's job server, served by us.

Every running step holds one job; ``make`` inside a step takes further ones from the same pipe (make 4.4
``--jobserver-auth=fifo:PATH``, GNU make manual "POSIX Jobserver"). So two kernels built side by side use
two processors together, not four.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from boardwright.errors import InputError

MOST = 4096
"""A pipe takes 65,536 bytes before its writer waits (pipe(7)); nobody has that many processors."""

INSIDE = "/jobserver"


class Jobs:
    """A pipe in ``directory`` that holds one byte for each free job. ``InputError`` for a bad count."""

    def __init__(self, count: int, directory: Path) -> None:
        if not 1 <= count <= MOST:
            raise InputError(f"the number of jobs must be 1 to {MOST}, not {count}")
        self.count = count
        self.path = directory / "jobserver"
        os.mkfifo(self.path, 0o600)
        self._pipe = os.open(self.path, os.O_RDWR)
        os.write(self._pipe, b"+" * count)

    def close(self) -> None:
        os.close(self._pipe)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold one job; waits for it."""
        token = os.read(self._pipe, 1)
        try:
            yield
        finally:
            os.write(self._pipe, token)

    def variables(self) -> dict[str, str]:
        """What a step sees: ``JOBS`` for tools that know no job server, ``MAKEFLAGS`` for make."""
        return {"JOBS": str(self.count), "MAKEFLAGS": f"-j{self.count} --jobserver-auth=fifo:{INSIDE}"}
