"""One file over HTTP(S) or from disk: keep-alive, ranges, proxies, and a bound on everything.

Errors say whether asking again makes sense, which is all that :mod:`boardwright.build.fetch` wants to know.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import mirror

CHUNK = 1 << 18
REDIRECTS = 5
CONNECT = 10.0
"""Seconds for a connection to be made."""
_HEADERS = {"User-Agent": "boardwright", "Accept-Encoding": "identity"}


class TransferError(Exception):
    """A file did not come; ``final`` when the same address will give the same answer."""

    final = False


class NotThereError(TransferError):
    """The address answers that it has no such file."""

    final = True


class RefusedError(TransferError):
    """The address answers, but never with the file: forbidden, a redirect loop, no http address."""

    final = True


class WrongBytesError(TransferError):
    """The address sent other bytes than the lock names."""

    final = True


class RangeError(TransferError):
    """The server will not continue where a partial file ends; ask for the whole file."""


class UnansweredError(TransferError):
    """The network or the server failed; another time it may not."""


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a file from ``start`` on; ``total`` is the size of the whole file, if the server says.

    ``read`` gives what has arrived, ``b""`` at the end. It raises :class:`UnansweredError`.
    """

    start: int
    total: int | None
    read: Callable[[], bytes]


class Client:
    """Connections of one thread. ``stall`` bounds, in seconds, every wait for a connection or a byte."""

    def __init__(self, stall: float) -> None:
        self.stall = stall
        self._connections: dict[tuple[str, str, str | None], http.client.HTTPConnection] = {}
        self._aborted = threading.Event()

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    def abort(self) -> None:
        """From another thread: end what is being waited for now; it raises :class:`UnansweredError`."""
        self._aborted.set()
        for connection in list(self._connections.values()):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(2)

    @contextlib.contextmanager
    def get(self, url: str, start: int = 0) -> Iterator[Body]:
        """The file at an http, https or file URL, from byte ``start`` on if the server can."""
        if urllib.parse.urlsplit(url).scheme == "file":
            with _from_disk(url, start) as body:
                yield body
            return
        connection, response = self._followed(url, start)
        try:
            yield _body(response, start)
        finally:
            if not response.isclosed():
                _drop(connection, response)

    def _followed(self, url: str, start: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        here = url
        for _ in range(REDIRECTS + 1):
            connection, response = self._asked(here, start)
            if response.status not in (301, 302, 303, 307, 308):
                _checked(response, here, connection)
                return connection, response
            target = response.headers.get("Location", "")
            _drop(connection, response)
            here = urllib.parse.urljoin(here, target)
            if urllib.parse.urlsplit(here).scheme not in ("http", "https"):
                raise RefusedError(f"{url} redirects to {target!r}, which is no http address")
        raise RefusedError(f"{url} redirects more than {REDIRECTS} times")

    def _asked(self, url: str, start: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send the request; once more on a fresh connection when an idle one was closed meanwhile."""
        headers = _HEADERS | ({"Range": f"bytes={start}-"} if start else {})
        try:
            connection, target, extra = self._connection(url)
        except (OSError, ValueError) as error:
            raise RefusedError(f"{url}: {error}") from error
        for fresh in (connection.sock is None, True):
            if self._aborted.is_set():
                raise UnansweredError("stopped")
            try:
                self._connect(connection)
                connection.request("GET", target, headers=headers | extra)
                return connection, connection.getresponse()
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                if fresh:
                    raise UnansweredError(f"{url}: {_words(error)}") from error
        raise AssertionError("unreachable")

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is None:
            connection.timeout = min(CONNECT, self.stall)
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(self.stall)

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """The connection for a URL, what to ask it for, and the headers its proxy wants."""
        parts = urllib.parse.urlsplit(url)
        proxy = mirror.proxy(f"{parts.scheme}://{parts.netloc}")
        key = (parts.scheme, parts.netloc, proxy)
        target = urllib.parse.quote(parts.path or "/", safe="/%+~:@!$&'()*,;=")
        target += f"?{parts.query}" if parts.query else ""
        via = urllib.parse.urlsplit(proxy) if proxy else None
        extra = _credentials(via) if via else {}
        if via and parts.scheme == "http":
            target = f"http://{parts.netloc}{target}"
        if key not in self._connections:
            self._connections[key] = self._opened(parts, via, extra)
        return self._connections[key], target, extra if parts.scheme == "http" else {}

    def _opened(
        self, parts: urllib.parse.SplitResult, via: urllib.parse.SplitResult | None, extra: dict[str, str]
    ) -> http.client.HTTPConnection:
        near = via or parts
        host = near.hostname
        if not host:
            raise ValueError("the address names no host")
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, near.port, timeout=self.stall)
        connection = http.client.HTTPSConnection(host, near.port, timeout=self.stall)
        if via:
            connection.set_tunnel(parts.hostname or "", parts.port, headers=extra)
        return connection


def _credentials(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    plain = urllib.parse.unquote(f"{proxy.username}:{proxy.password or ''}")
    return {"Proxy-Authorization": "Basic " + base64.b64encode(plain.encode()).decode()}


def _drop(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
    """Close both: a response that announced the end of its connection no longer belongs to it."""
    response.close()
    connection.close()


def _checked(response: http.client.HTTPResponse, url: str, connection: http.client.HTTPConnection) -> None:
    status = response.status
    if status in (200, 206):
        return
    _drop(connection, response)
    said = f"{url}: {status} {response.reason}"
    if status in (404, 410):
        raise NotThereError(said)
    if status == 416:
        raise RangeError(said)
    if status in (408, 425, 429) or status >= 500:
        raise UnansweredError(said)
    raise RefusedError(said)


def _body(response: http.client.HTTPResponse, start: int) -> Body:
    length = response.headers.get("Content-Length", "")
    size = int(length) if length.isdigit() else None
    left = size

    def read() -> bytes:
        """What has arrived, never past the end: there a kept connection would wait for ever."""
        nonlocal left
        try:
            chunk = response.read1(CHUNK if left is None else min(CHUNK, left)) if left != 0 else b""
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise UnansweredError(f"the connection broke: {_words(error)}") from error
        if left is not None:
            left -= len(chunk)
            if left == 0:
                response.close()
        return chunk

    if response.status == 206:
        span = re.match(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None or int(span.group(1)) != start:
            raise RangeError("the server sent another range than it was asked for")
        return Body(start, int(span.group(2)) if span.group(2) != "*" else None, read)
    return Body(0, size, read)


@contextlib.contextmanager
def _from_disk(url: str, start: int) -> Iterator[Body]:
    path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise NotThereError(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}") from error
    with file:
        total = file.seek(0, 2)
        begin = file.seek(start if start <= total else 0)
        yield Body(begin, total, lambda: file.read(CHUNK))


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the file ended early"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
