"""Bytes for a board over its console, where there is no network."""

from __future__ import annotations

import errno
import gzip

from boardwright.console import transfer
from boardwright.console.console import Console
from boardwright.errors import ProductError


class Line:
    """A ``Carrier`` over the console, compressed: for small images, or where there is no network."""

    most = 2**18

    def __init__(self, console: Console) -> None:
        self._console = console

    def command(self, data: memoryview) -> str:
        path = "/run/boardwright.gz"
        try:
            transfer.push(self._console, gzip.compress(data, 9), path)
        except ProductError as error:
            raise OSError(errno.EIO, error.message) from error
        return f"gzip -dc {path}"
