"""A labgrid place: taken, powered, its serial port used over RFC 2217, given back. labgrid runs for real."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from lab_tools import BoardOnPty, free_port, labgrid, running, ser2net

from boardwright.console import bootscript
from boardwright.console.console import Console
from boardwright.errors import HostError
from boardwright.targets.labgrid import Lab, connected, parse_resources, serial_url
from boardwright.targets.power import cycle

ROCK = Path(__file__).parents[1] / "console/scripts/rock5b.yaml"
SHOWN = """Place 'rock':
  acquired: host/me
Acquired resource 'RawSerialPort' (x/desk/NetworkSerialPort/RawSerialPort):
  {'acquired': 'rock',
   'cls': 'NetworkSerialPort',
   'params': {'extra': {'path': '/dev/ttyUSB0'},
              'host': 'lab3',
              'port': 4711,
              'speed': 1500000}}
"""


def test_the_serial_port_is_found_in_what_the_client_shows() -> None:
    resources = parse_resources(SHOWN)
    assert serial_url(resources, "rock") == ("rfc2217://lab3:4711", 1500000)


@pytest.mark.parametrize("text", ["", "nonsense", SHOWN.replace("4711", "None"), SHOWN.replace("{", "[")])
def test_a_place_without_a_serial_port_is_named(text: str) -> None:
    with pytest.raises(HostError, match="expected a NetworkSerialPort in the place 'rock'"):
        serial_url(parse_resources(text), "rock")


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDWRIGHT_LABGRID_CLIENT", "/there/is/none")
    with pytest.raises(HostError, match="expected the program labgrid-client"):
        Lab("rock").client("show")


@pytest.mark.e2e
def test_a_place_from_power_on_to_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, _ = labgrid(), ser2net()
    monkeypatch.setenv("BOARDWRIGHT_LABGRID_CLIENT", str(programs / "labgrid-client"))
    script, port = bootscript.load(ROCK), free_port()
    board, switched = BoardOnPty(script, speed=10.0), list[bytes]()

    class Switch(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            value = self.rfile.read(int(self.headers["Content-Length"]))
            switched.append(value)
            if value == b"1":
                board.power_on()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "exporter.yaml").write_text(
        f"desk:\n  RawSerialPort: {{port: {board.device}, speed: 1500000}}\n"
        "  NetworkPowerPort:\n    model: rest\n    index: 0\n"
        f"    host: 'http://127.0.0.1:{server.server_port}/'\n"
    )
    address = f"127.0.0.1:{port}"
    lab = Lab("rock", address)
    exporter = [
        str(programs / "labgrid-exporter"), "-c", address, "--name", "here", "--hostname", "127.0.0.1",
        str(tmp_path / "exporter.yaml"),
    ]  # fmt: skip
    try:
        with (
            running([str(programs / "labgrid-coordinator"), "-l", address], tmp_path / "c", port),
            running(exporter, tmp_path / "e", PATH=f"{programs}:/usr/sbin:/usr/bin:/bin"),
        ):
            lab.client("create")
            lab.client("add-match", "here/desk/*")
            _wait_for_the_exporter(lab)
            with connected(lab) as (cable, power):
                assert power is not None
                cycle(power, 0.0)
                console = Console(cable)
                console.boot(120)
                assert console.run("uname -r") == script.answers["uname -r"]
                with pytest.raises(HostError, match="already acquired"):
                    lab.client("acquire")
            assert "acquired: None" in lab.client("show")
            with pytest.raises(HostError, match="place 'none'"):
                Lab("none", address).client("acquire")
        assert switched == [b"0", b"1"]
    finally:
        server.shutdown()
        server.server_close()
        board.close()


def _wait_for_the_exporter(lab: Lab) -> None:
    for _ in range(30):
        if "here/desk/NetworkSerialPort" in lab.client("resources"):
            return
    raise AssertionError("the exporter offers nothing")
