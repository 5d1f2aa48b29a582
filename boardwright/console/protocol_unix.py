"""``unix:///path/of/socket`` for pyserial, next to its own ``socket://`` and ``rfc2217://``.

QEMU's serial port is a Unix socket here: an emulator without a network has no TCP port to listen on, and
a path in a private directory cannot be guessed, taken or reached by anyone else.
pyserial finds this module by its name (``serial.protocol_handler_packages``).
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios

import serial
from serial.urlhandler import protocol_socket


class Serial(protocol_socket.Serial):
    """pyserial's socket port, opened on a path."""

    def open(self) -> None:
        path = str(self.portstr).removeprefix("unix://")
        self.logger = None
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(path)
        except OSError as error:
            peer.close()
            raise serial.SerialException(f"cannot connect to {path}: {error.strerror}") from None
        peer.setblocking(False)
        self._socket = peer
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self._socket.close()
            self._socket = None  # type: ignore[assignment]
            self.is_open = False

    @property
    def in_waiting(self) -> int:
        waiting: int = struct.unpack("i", fcntl.ioctl(self._socket, termios.FIONREAD, b"\0" * 4))[0]
        return waiting
