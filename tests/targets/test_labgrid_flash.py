"""``--to labgrid:PLACE``: coordinator, exporter, client, ssh and sshd run for real, and write a loop device.

What is no part of it is the hardware: the exporter is told of the reader instead of finding it on USB, and
``usbsdmux``, which talks to the mux, puts the card's file behind the loop device and takes it away again.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board_shell import loop_disk
from flash_images import content, holds, make
from lab_tools import free_port, labgrid, running

from boardwright.targets.labgrid import Lab
from boardwright.verbs.flash import flash_image

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
IMAGE = content()
MIB = 2**20
MUX = """
import json, subprocess, sys
disk, card, log = json.load(open({state!r}))
assert sys.argv[1] == "/dev/sg-of-the-mux", sys.argv
open(log, "a").write(sys.argv[2] + "\\n")
if sys.argv[2] == "host":
    subprocess.run(["losetup", disk, card], check=True)
elif sys.argv[2] == "dut":
    subprocess.run(["losetup", "--detach", disk], check=True)
"""


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@contextlib.contextmanager
def ssh_server(directory: Path, programs: Path) -> Iterator[None]:
    """An sshd of our own; ``programs`` gets an ssh that finds it, and otherwise is the real one."""
    server, client = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("ssh")
    if server is None or client is None:
        pytest.skip("Debian's packages openssh-server and openssh-client are not installed")
    for key in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key], check=True)
    shutil.copy(directory / "mine.pub", directory / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # what sshd wants to be locked into
    port = free_port()
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nStrictModes no\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nPermitRootLogin prohibit-password\n"
        f"UsePAM no\nPidFile none\nSetEnv PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin\n"
    )
    (directory / "ssh_config").write_text(
        f"Host 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {directory}/mine\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {directory}/known\n"
    )
    (directory / "known").write_text(f"[127.0.0.1]:{port} {(directory / 'host.pub').read_text()}")
    program(programs / "ssh", f'#!/bin/sh\nexec {client} -F {directory}/ssh_config "$@"\n')
    command = [server, "-D", "-e", "-f", str(directory / "sshd_config")]
    with running(command, directory / "sshd.log", port):
        yield


@contextlib.contextmanager
def lab(tmp_path: Path, resource: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The coordinator's address; the place ``rock`` has one resource, in YAML."""
    tools, programs, port = labgrid(), tmp_path / "bin", free_port()
    programs.mkdir()
    monkeypatch.setenv("BOARDWRIGHT_LABGRID_CLIENT", str(tools / "labgrid-client"))
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    (tmp_path / "exporter.yaml").write_text(f"desk:\n  {resource}\n")
    address = f"127.0.0.1:{port}"
    exporter = [
        str(tools / "labgrid-exporter"), "-c", address, "--name", "here", "--hostname", "127.0.0.1",
        str(tmp_path / "exporter.yaml"),
    ]  # fmt: skip
    with (
        ssh_server(tmp_path, programs),
        running([str(tools / "labgrid-coordinator"), "-l", address], tmp_path / "c", port),
        running(exporter, tmp_path / "e"),
    ):
        place = Lab("rock", address)
        place.client("create")
        place.client("add-match", "here/desk/*")
        for _ in range(30):
            if "here/desk" in place.client("resources"):
                break
        else:
            raise AssertionError("the exporter offers nothing")
        yield address
        assert "acquired: None" in place.client("show")


def flash(
    tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, dict[str, Any]]:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("boards", "recipes", "patches"):
        (project / name).symlink_to(ROOT / name)
    (project / "local.yaml").write_text("devices:\n  there: 'labgrid:rock'\n")
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(tmp_path / "cache"))
    capsys.readouterr()
    image = str(make(tmp_path, IMAGE))
    status = flash_image(project, "rock5b", "", "there", image, True, False, True, coordinator=address)
    return status, json.loads(capsys.readouterr().out)


def reader(kind: str, path: str, more: str = "") -> str:
    usb = "busnum: 1, devnum: 2, vendor_id: 1060, model_id: 16449"
    return f"{kind}: {{host: 127.0.0.1, path: {path}, {usb}{more}}}"


def test_a_place_with_a_card_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stands in for anything but the exporter's look at USB."""
    with (
        loop_disk(tmp_path / "backing", 8 * MIB) as disk,
        lab(tmp_path, reader("NetworkUSBMassStorage", str(disk)), monkeypatch) as address,
    ):
        status, report = flash(tmp_path, address, capsys, monkeypatch)
    assert (status, report["outcome"]) == (0, "written"), report
    assert report["read_back"]
    assert (report["target"]["place"], report["target"]["host"]) == ("rock", "127.0.0.1")
    assert holds((tmp_path / "backing").read_bytes(), IMAGE)


def test_a_place_with_a_mux(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """labgrid's own driver switches it, by ssh; without the card there is no disk on the host."""
    with loop_disk(tmp_path / "other", MIB) as disk:
        pass
    card, log = tmp_path / "card", tmp_path / "log"
    card.write_bytes(b"\xaa" * (8 * MIB))
    (tmp_path / "state").write_text(json.dumps([str(disk), str(card), str(log)]))
    resource = reader("NetworkUSBSDMuxDevice", str(disk), ", control_path: /dev/sg-of-the-mux")
    with lab(tmp_path, resource, monkeypatch) as address:
        mux = MUX.format(state=str(tmp_path / "state"))
        program(tmp_path / "bin/usbsdmux", f"#!{sys.executable}\n{mux}")
        status, report = flash(tmp_path, address, capsys, monkeypatch)
    assert (status, report["outcome"]) == (0, "written"), report
    assert report["read_back"]
    assert log.read_text().split() == ["host", "dut"]
    assert holds(card.read_bytes(), IMAGE)


def test_a_place_without_a_card_reader_is_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = "NetworkSerialPort: {host: 127.0.0.1, port: 1, speed: 1500000}"
    with lab(tmp_path, resource, monkeypatch) as address:
        status, report = flash(tmp_path, address, capsys, monkeypatch)
    assert (status, report["outcome"]) == (3, "failed")
    assert "expected a NetworkUSBSDMuxDevice or NetworkUSBMassStorage" in report["error"]
    assert "found NetworkSerialPort" in report["error"]
