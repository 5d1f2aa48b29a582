"""``rfc2217://host:port``: pyserial's, which a server that ends in mid-session leaves with two faults.

pyserial 3.5 (``serial/rfc2217.py``): ``read`` raises as soon as its reader thread has ended, though bytes
that the thread received are still in the queue; and ``close`` calls ``shutdown`` first, which fails on a
socket whose peer is gone, so that the socket is never closed.
pyserial finds this module by its name (``serial.protocol_handler_packages``).
"""

from __future__ import annotations

import queue

from serial import SerialException, rfc2217


class Serial(rfc2217.Serial):
    """pyserial's port, with its last bytes delivered and its socket closed."""

    def read(self, size: int = 1) -> bytes:
        try:
            return bytes(super().read(size))
        except SerialException:
            if last := self._last_bytes(size):
                return last
            raise SerialException("the RFC 2217 server closed the connection") from None

    def close(self) -> None:
        peer = self._socket  # type: ignore[attr-defined]
        super().close()
        if peer is not None:
            peer.close()

    def _last_bytes(self, size: int) -> bytes:
        """What its reader thread left; ``None`` in the queue marks the connection's end."""
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._read_buffer.get_nowait()  # type: ignore[attr-defined]
            except queue.Empty:
                break
            data += piece or b""
        return bytes(data)
