"""A Debian mirror on 127.0.0.1 that misbehaves when told to.

``server.faults["/pool/a.deb"] = [truncate]`` makes the next request for that path go wrong and the one
after it go right; ``server.always[path] = fault`` makes every one go wrong.
"""

from __future__ import annotations

import hashlib
import http.server
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from boardwright.build.step import Download


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MirrorServer

    def log_message(self, *_: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        path = self.path.split("://", 1)[-1]
        path = path[path.index("/") :] if not path.startswith("/") else path
        self.server.requests[path] += 1
        self.server.ranges.append(self.headers.get("Range"))
        waiting = self.server.faults.get(path, [])
        fault = waiting.pop(0) if waiting else self.server.always.get(path)
        try:
            (fault or right)(self, self.server.files.get(path))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


Fault = Callable[[Handler, bytes | None], None]


def right(handler: Handler, body: bytes | None) -> None:
    wanted = handler.headers.get("Range")
    if body is None:
        handler.answer(404, b"no such file")
    elif wanted and handler.server.accepts_ranges:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            handler.answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            return
        span = f"bytes {start}-{len(body) - 1}/{len(body)}"
        handler.answer(206, body[start:], {"Content-Range": span})
    else:
        handler.answer(200, body)


def missing(handler: Handler, _: bytes | None) -> None:
    handler.answer(404, b"gone")


def broken(handler: Handler, _: bytes | None) -> None:
    handler.answer(500, b"the server is on fire")


def forbidden(handler: Handler, _: bytes | None) -> None:
    handler.answer(403, b"no")


def truncate(handler: Handler, body: bytes | None) -> None:
    """Promises all, sends half, hangs up."""
    assert body is not None
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def stall(handler: Handler, body: bytes | None) -> None:
    """Sends half and then nothing, with the connection open, until the server is stopped."""
    assert body is not None
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()
    handler.server.stalled.set()
    handler.server.stopping.wait(60)
    handler.close_connection = True


def drip(handler: Handler, body: bytes | None) -> None:
    """Sends a byte at a time, each soon enough for a stall timeout."""
    assert body is not None
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    for n in range(len(body)):
        handler.wfile.write(body[n : n + 1])
        handler.wfile.flush()
        if handler.server.stopping.wait(0.05):
            break
    handler.close_connection = True


def lie(handler: Handler, body: bytes | None) -> None:
    """The right size, one bit wrong."""
    assert body is not None
    handler.answer(200, bytes([body[0] ^ 1]) + body[1:])


def shorter(handler: Handler, body: bytes | None) -> None:
    assert body is not None
    handler.answer(200, body[:-1])


def endless(handler: Handler, body: bytes | None) -> None:
    """No length given, and more bytes than the file has."""
    assert body is not None
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(body + body)
    handler.close_connection = True


def loop(handler: Handler, _: bytes | None) -> None:
    handler.answer(302, b"", {"Location": handler.path})


def to(location: str) -> Fault:
    def redirect(handler: Handler, _: bytes | None) -> None:
        handler.answer(302, b"", {"Location": location})

    return redirect


class MirrorServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str | None] = []
        self.connections = 0
        self.accepts_ranges = True
        self.stopping = threading.Event()
        self.stalled = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are part of the tests."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, path: str, body: bytes) -> Download:
        """A file of the mirror and the download that names it."""
        self.files[f"/{path}"] = body
        return Download(path, len(body), hashlib.sha256(body).hexdigest())

    def publish(self, directory: Path) -> None:
        """Every file below a directory, under its relative path."""
        for path in directory.rglob("*"):
            if path.is_file():
                self.files[f"/{path.relative_to(directory)}"] = path.read_bytes()


@contextmanager
def serving() -> Iterator[MirrorServer]:
    server = MirrorServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a condition, with a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
