"""The lowest layer: bytes in, bytes out, and a clear word when the other end is gone."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

from boardwright.console.errors import ConsoleLost

if TYPE_CHECKING:
    import serial

_LARGEST_READ = 4096
_WRITE_SECONDS = 10.0


class Gap(Exception):
    """Raised once by ``read`` after the port was away and is back: bytes may be missing here."""


class Port(Protocol):
    """What a console needs of a cable."""

    def read(self, seconds: float) -> bytes:
        """At least one byte, or none when ``seconds`` pass without any. Raises ``ConsoleLost``, ``Gap``."""

    def write(self, data: bytes) -> None:
        """All of ``data``. Raises ``ConsoleLost``."""

    def close(self) -> None: ...


class SerialPort:
    """Anything pyserial opens: ``/dev/ttyUSB0``, ``rfc2217://…``, ``socket://…``, and ``unix://…``."""

    def __init__(self, url: str, baud: int = 115200) -> None:
        import serial

        if (package := __package__) not in serial.protocol_handler_packages:
            serial.protocol_handler_packages.insert(0, package)  # our rfc2217:// before pyserial's own
        self.url = url
        try:
            port = serial.serial_for_url(_with_options(url), baudrate=baud, do_not_open=True)
            if not url.startswith("rfc2217:"):  # which pyserial 3.5 does not open with one
                port.write_timeout = _WRITE_SECONDS
            if url.startswith("/"):
                port.exclusive = True  # a second reader would steal bytes
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # pyserial 3.5 rfc2217: setDaemon
                port.open()
        except (serial.SerialException, ValueError, OSError) as error:
            raise ConsoleLost(
                f"expected a serial port at {url}, but it does not open: {error}",
                hint="is it plugged in, is it in use by another program, and may this user open it?",
            ) from None
        self._port: serial.Serial = port

    def read(self, seconds: float) -> bytes:
        try:
            # Setting .timeout would configure the port anew: over RFC 2217 that is a talk with the server.
            self._port._timeout = seconds  # type: ignore[attr-defined]
            data = bytes(self._port.read(1))
            while data and len(data) < _LARGEST_READ and (waiting := self._port.in_waiting):
                data += self._port.read(min(waiting, _LARGEST_READ))
            return data
        except (OSError, TypeError) as error:  # SerialException is an OSError; a closed port has no fd
            raise self._lost(error) from None

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except (OSError, TypeError) as error:
            raise self._lost(error) from None

    def close(self) -> None:
        self._port.close()

    def _lost(self, error: Exception) -> ConsoleLost:
        return ConsoleLost(
            f"the serial port {self.url} went away: {error}",
            hint="a USB adapter that loses its power or an emulator that ended looks like this",
        )


def _with_options(url: str) -> str:
    """RFC 2217: ser2net does not answer requests to set lines that its device lacks; do not wait for it."""
    return url if "?" in url or not url.startswith("rfc2217:") else f"{url}?ign_set_control&timeout=10"
