"""``invoke flash --to KIND:WHERE`` by the verb: a board's shell, a download mode, a lab's mux."""

from __future__ import annotations

import json
import os
import pty
import sys
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_shell import board, loop_disk
from flash_images import content, holds, make

from boardwright.errors import HostError, InputError
from boardwright.flash.ssh import Ssh
from boardwright.vendor import axdl_simulator, axera_package
from boardwright.vendor.axera_xml import Image, Kind, Partition, Project, Table
from boardwright.verbs.flash import flash_image

ROOT = Path(__file__).parents[2]
IMAGE = content()
MIB = 2**20


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the boards of this one, and a local.yaml of its own."""
    made = tmp_path / "project"
    made.mkdir()
    for name in ("boards", "recipes", "patches"):
        (made / name).symlink_to(ROOT / name)
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(tmp_path / "cache"))
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with loop_disk(tmp_path / "backing", 8 * MIB) as made:
        yield made


def flash(
    project: Path, capsys: pytest.CaptureFixture[str], to: str, image: Path, **more: str
) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    status = flash_image(
        project, "rock5b", "", to, str(image), bool(more.pop("yes", "")), False, True, **more
    )
    return status, json.loads(capsys.readouterr().out)


def declare(project: Path, to: str) -> None:
    (project / "local.yaml").write_text(f"devices:\n  there: '{to}'\n")


def test_console_is_refused_without_a_serial_number_and_without_a_terminal(
    project: Path, tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = make(tmp_path, IMAGE)
    with board("sh", "-i") as url:
        to = f"console:serial:{url}@{disk.name}"
        declare(project, to)
        status, report = flash(project, capsys, "there", image, yes="yes")
    assert (status, report["outcome"]) == (2, "refused")
    assert "is not in local.yaml" in str(report["error"])
    assert (tmp_path / "backing").read_bytes() == b"\xaa" * (8 * MIB)


def test_console_writes_what_was_confirmed(
    project: Path,
    tmp_path: Path,
    disk: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from boardwright.verbs import flash_request as verb

    monkeypatch.setattr(verb, "typed", lambda _lines, _what, word: word + "\n")
    image = make(tmp_path, IMAGE)
    with board("sh", "-i") as url:
        to = f"console:serial:{url}@{disk.name}"
        status, report = flash(project, capsys, to, image, serve="127.0.0.1")
    assert (status, report["outcome"], report["read_back"]) == (0, "written", True)
    assert holds((tmp_path / "backing").read_bytes(), IMAGE)
    assert list((project / "out/rock5b/flash").glob("*.cast"))


@pytest.mark.parametrize("to", ["console:serial:X", "console:qemu@vdb", "console:serial:X@", "console:"])
def test_a_console_target_that_names_no_disk(
    project: Path, tmp_path: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = flash(project, capsys, to, make(tmp_path, IMAGE))
    assert (status, report["outcome"]) == (2, "refused")
    assert "--to" in str(report["error"])


def test_axdl_writes_a_package_and_does_not_claim_to_have_read_it_back(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"fdl.bin": os.urandom(3000), "u-boot.bin": os.urandom(50_000)}
    paths = {}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        paths[name] = tmp_path / name
    images = (
        Image("INIT", Kind.INIT, flag=2, identifier="INIT"),
        Image("FDL", Kind.FDL, "fdl.bin", base=0x14000000, flag=3, identifier="FDL"),
        Image("UBOOT", Kind.CODE, "u-boot.bin", "uboot", identifier="UBOOT"),
    )
    table = Table((Partition("uboot", 1536), Partition("opt", None)))
    package = tmp_path / "x.axp"
    axera_package.make(package, Project(table, images, 1, "AX650X", "test", "V0"), paths)
    simulated = axdl_simulator.SimulatedBoard()
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    thread = threading.Thread(target=axdl_simulator.serve, args=(simulated, ours, 60.0), daemon=True)
    thread.start()
    try:
        to = f"axdl:{os.ttyname(theirs)}"
        status, report = flash(project, capsys, to, package, yes="yes")
        assert (status, report["outcome"]) == (2, "refused")  # not declared
        declare(project, to)
        status, report = flash(project, capsys, "there", package, yes="yes")
    finally:
        os.close(theirs)
        thread.join(20)
        os.close(ours)
    assert (status, report["outcome"], report["read_back"]) == (0, "written", False)
    assert simulated.partitions["uboot"] == files["u-boot.bin"]
    assert "(uboot)" in simulated.bootargs


def program(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)


SSH = """
import os, sys
assert sys.argv[1:4] == ["-o", "BatchMode=yes", "--"], sys.argv
if sys.argv[4] != "lab3":
    sys.exit(print("ssh: Could not resolve hostname", file=sys.stderr) or 255)
os.execvp("sh", ["sh", "-c", sys.argv[5]])
"""


def test_an_exporter_that_is_not_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "ssh", SSH)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(HostError, match="lab4 is not reached by ssh: ssh: Could not resolve"):
        Ssh("lab4").run("true")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="ssh is not installed"):
        Ssh("lab3").run("true")


def test_labgrid_must_name_a_place(project: Path) -> None:
    from boardwright.flash.choose import remote

    with pytest.raises(InputError, match="expected labgrid:PLACE"):
        remote("labgrid:", {})
    assert project.is_dir()
