"""A serial port that comes back: adapters lose power with the board, and return under another name.

ser2net and picocom end the session then (github.com/cminyard/ser2net/issues/67). Here the port is opened
again by its stable name, and the reader is told by :class:`~boardwright.console.transport.Gap`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from boardwright.console.errors import ConsoleLost
from boardwright.console.transport import Gap, Port, SerialPort

BY_ID = Path("/dev/serial/by-id")


def stable(url: str, by_id: Path = BY_ID) -> str:
    """The name under ``/dev/serial/by-id`` of a device, so that it is found again; else ``url`` itself.

    A word without a slash is looked for among those names: ``FTDI`` means the one adapter whose name has it.
    Raises ``ConsoleLost`` when it fits none or several.
    """
    links = sorted(by_id.iterdir()) if by_id.is_dir() else []
    if "://" in url:
        return url
    if "/" not in url:
        fitting = [link for link in links if url.lower() in link.name.lower()]
        if len(fitting) != 1:
            found = ", ".join(link.name for link in fitting or links) or "no adapter"
            raise ConsoleLost(
                f"expected one serial adapter with {url!r} in its name, found {found}",
                hint=f"give more of the name, or a path; the names are those in {by_id}",
            )
        return str(fitting[0])
    path = Path(url)
    if path.parent != by_id and path.exists():
        return next((str(link) for link in links if link.resolve() == path.resolve()), url)
    return url


class ReopeningPort:
    """Opens ``url`` again when it goes away, for at most ``patience`` seconds; then raises ``ConsoleLost``.

    ``opener``, ``clock`` and ``sleep`` are for tests.
    """

    def __init__(
        self,
        url: str,
        baud: int = 115200,
        *,
        patience: float = 30.0,
        opener: Callable[[str, int], Port] = SerialPort,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.baud, self._patience = stable(url), baud, patience
        self._opener, self._clock, self._sleep = opener, clock, sleep
        self._port: Port | None = opener(self.url, baud)
        self._gone_at = 0.0

    def read(self, seconds: float) -> bytes:
        if self._port is None:
            self._reopen(seconds)
            return b""
        try:
            return self._port.read(seconds)
        except ConsoleLost as lost:
            self._lose(lost)
            return b""

    def write(self, data: bytes) -> None:
        """What is written while the port is away is lost, as it is on a cable that was pulled."""
        if self._port is not None:
            try:
                self._port.write(data)
            except ConsoleLost as lost:
                self._lose(lost)

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None

    def _lose(self, lost: ConsoleLost) -> None:
        assert self._port is not None
        self._port.close()
        self._port, self._gone_at, self._why = None, self._clock(), lost

    def _reopen(self, seconds: float) -> None:
        end = self._clock() + min(seconds, 0.2)
        try:
            self._port = self._opener(self.url, self.baud)
        except ConsoleLost:
            away = self._clock() - self._gone_at
            if away > self._patience:
                raise ConsoleLost(
                    f"{self._why.message}, and it did not come back within {self._patience:.0f} s",
                    hint=self._why.hint,
                ) from None
            self._sleep(max(end - self._clock(), 0.0))
            return
        raise Gap(f"gap: the port was away for {self._clock() - self._gone_at:.1f} s")
