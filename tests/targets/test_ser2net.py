"""A board behind ser2net is reached over RFC 2217 as one on this host is."""

from __future__ import annotations

from pathlib import Path

from lab_tools import BoardOnPty, free_port, running, ser2net

from boardwright.console import bootscript
from boardwright.console.console import Console
from boardwright.console.reopening import ReopeningPort

ROCK = Path(__file__).parents[1] / "console/scripts/rock5b.yaml"


def command(device: str, port: int) -> list[str]:
    return [
        ser2net(), "-d", "-n",
        "-Y", f"connection: &c#  accepter: telnet(rfc2217,mode=server),tcp,127.0.0.1,{port}",
        "-Y", f"  connector: serialdev(nouucplock=true),{device},1500000n81,local",
        "-Y", "  options:", "-Y", "    kickolduser: true",
    ]  # fmt: skip


def test_a_board_behind_ser2net_boots_and_answers(tmp_path: Path) -> None:
    script, port = bootscript.load(ROCK), free_port()
    board = BoardOnPty(script, speed=10.0)
    try:
        with running(command(board.device, port), tmp_path / "log", port):
            cable = ReopeningPort(f"rfc2217://127.0.0.1:{port}", 1500000)
            board.power_on()
            with Console(cable) as console:
                console.boot(120)
                assert console.run("uname -r") == script.answers["uname -r"]
                assert console.run("false").status == 1
    finally:
        board.close()
