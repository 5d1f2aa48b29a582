"""One piece at a time for a board to fetch by HTTP, under a name that nobody else can guess."""

from __future__ import annotations

import errno
import ipaddress
import secrets
import shlex
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from boardwright.errors import HostError, InputError
from boardwright.flash.boarddisk import Shell

_PROBE = b"boardwright can be reached\n"
_CLIENTS = {
    "curl": "curl -sSf -m 300 http://{host}:{port}/{name}",
    "wget": "wget -q -T 60 -O - http://{host}:{port}/{name}",
    # HTTP/1.0 ends with the connection. read takes single bytes of what cannot be sought: cat has the rest.
    "bash": 'bash -c \'exec 3<>/dev/tcp/{host}/{port};printf "GET /{name} HTTP/1.0\\r\\n\\r\\n" >&3;'
    "while read -r l<&3;do case $l in ?) break;;esac;done;exec cat<&3'",
}


class Network:
    """A ``Carrier`` by HTTP, with ``curl``, ``wget`` or ``bash``, whose ``/dev/tcp`` speaks it well enough.

    ``address``: how the board names this host, empty: found by the board's own address. Open for the time of
    a flash.
    """

    most = 2**26

    def __init__(self, shell: Shell, address: str = "") -> None:
        """Raises ``HostError`` when the board does not reach this host, ``InputError`` for a bad address."""
        self._data: memoryview | bytes = b""
        self._name = ""
        host, colon, port = address.partition(":")
        if colon and not port.isdecimal():
            raise InputError(f"--serve: expected ADDRESS[:PORT] or line, found {address!r}")
        self._host = host or _towards(shell)
        self._server = _listening(self._host, int(port or 0), self)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="http", daemon=True).start()
        try:
            self._client = self._working(shell)
        except BaseException:
            self.close()
            raise

    def command(self, data: memoryview | bytes) -> str:
        self._data, self._name = data, secrets.token_urlsafe(16)
        return self._client.format(host=self._host, port=self._port, name=self._name)

    def take(self, path: str) -> memoryview | bytes | None:
        """What stands under a path; None for any other than the one of the moment."""
        right = self._name and secrets.compare_digest(path.encode(), f"/{self._name}".encode())
        return self._data if right else None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _working(self, shell: Shell) -> str:
        reasons = []
        for program, client in _CLIENTS.items():
            if shell.run(f"command -v {program}").status:
                continue
            self._client = client
            done = shell.run(f"timeout 20 {self.command(_PROBE)}", 60)
            if done.output.encode().strip() == _PROBE.strip():
                return client
            reasons.append(f"{program}: {done.line[:100] or f'status {done.status}'}")
        raise HostError(
            f"the board does not reach this host at {self._host}:{self._port}"
            f" ({'; '.join(reasons) or 'it has no curl, wget or bash'})",
            hint="is its network up? --serve ADDRESS: how it reaches this host; --serve line does without",
        )


def _towards(shell: Shell) -> str:
    """This host's address on the way to the board, by the board's own first one."""
    said = shell.run("ip -4 -o addr show scope global").output.split()
    addresses = [word.partition("/")[0] for word in said if "/" in word]
    for address in addresses:
        try:
            ipaddress.IPv4Address(address)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                return str(probe.getsockname()[0])
        except (ValueError, OSError):
            continue
    raise HostError(
        "the board has no IPv4 address", hint="bring its network up, or give --serve ADDRESS or --serve line"
    )


def _listening(host: str, port: int, network: Network) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60.0

        def do_GET(self) -> None:
            data = network.take(self.path)
            if data is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Progress says enough."""

    try:
        try:
            return ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        # An address that is not ours is a forwarder's, such as QEMU's 10.0.2.2: it ends at the loopback.
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, ValueError) as error:
        raise InputError(f"--serve: {shlex.quote(host)}:{port} cannot be listened at: {error}") from error
