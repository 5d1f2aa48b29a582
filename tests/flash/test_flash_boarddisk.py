"""A disk of a running board, written by its own shell: a real shell, a real loop device, real HTTP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_shell import loop_disk, shell
from flash_images import KIB, SIZE, content, found, holds, make

from boardwright.errors import HostError, InputError, IntegrityError
from boardwright.flash import boarddisk, run
from boardwright.flash.boarddisk import BoardDisk, disks, still, the_disk
from boardwright.flash.journal import Journal
from boardwright.flash.line import Line
from boardwright.flash.serve import Network

IMAGE = content()
MIB = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with loop_disk(tmp_path / "backing", 8 * MIB) as made:
        yield made


def flash(medium: BoardDisk, tmp_path: Path) -> run.Done:
    return run.flash(found(make(tmp_path, IMAGE)), medium, Journal(tmp_path / "state/x.json", "image"))


@pytest.mark.parametrize("client", ["curl", "wget", "bash"])
def test_over_the_network_by_each_client(
    disk: Path, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from boardwright.flash import serve

    monkeypatch.setattr(serve, "_CLIENTS", {client: serve._CLIENTS[client]})
    with shell("sh", "-i") as console:
        if console.run(f"command -v {client}").status:
            pytest.skip(f"{client} is not installed")
        device = the_disk(disk.name, disks(console, SIZE))
        network = Network(console, "127.0.0.1")
        try:
            done = flash(BoardDisk(console, device, network), tmp_path)
        finally:
            network.close()
    assert (done.rewritten, done.resumed) == (0, False)
    written = (tmp_path / "backing").read_bytes()
    assert holds(written, IMAGE)
    assert written[-MIB:] == bytes(MIB)
    assert written[1152 * KIB : 1280 * KIB] == b"\xaa" * 128 * KIB


def test_over_the_line(disk: Path, tmp_path: Path) -> None:
    """A small image: most of it compresses well."""
    data = bytearray(IMAGE)
    for start in range(0, SIZE, 4096):
        data[start + 64 : start + 4096] = data[start : start + 1] * 4032
    with shell("sh", "-i") as console:
        device = the_disk(str(disk), disks(console, SIZE))
        medium = BoardDisk(console, device, Line(console))
        image = found(make(tmp_path, bytes(data)))
        run.flash(image, medium, Journal(tmp_path / "state/x.json", "image"))
    assert holds((tmp_path / "backing").read_bytes(), bytes(data))


def test_the_disks_are_those_of_that_machine_and_what_it_runs_from_is_refused(disk: Path) -> None:
    from boardwright.flash import devices

    with shell("sh", "-i") as console:
        there = {device.name: device for device in disks(console, SIZE)}
        here = {device.name: device for device in devices.found(needed=SIZE)}
        assert set(there) == set(here)
        for name, device in here.items():
            assert (there[name].identity, there[name].refusals) == (device.identity, device.refusals)
        system = [name for name, device in here.items() if "it carries the running system" in device.refusals]
        for name in system:
            with pytest.raises(InputError, match="there is not written to: it carries the running system"):
                the_disk(name, list(there.values()))
        with pytest.raises(InputError, match="there is no disk /dev/mmcblk7 there") as raised:
            the_disk("/dev/mmcblk7", list(there.values()))
        assert disk.name in str(raised.value.hint)
        with pytest.raises(InputError, match="it is too small: 8388608 bytes, the image has 8388609"):
            the_disk(disk.name, disks(console, 8 * MIB + 1))


def test_a_disk_that_came_into_use_while_one_was_asked(disk: Path) -> None:
    subprocess.run(["mkswap", "-q", disk], check=True, capture_output=True)
    with shell("sh", "-i") as console:
        device = the_disk(disk.name, disks(console))
        still(console, device)
        if subprocess.run(["swapon", disk], check=False, capture_output=True).returncode:
            pytest.skip("no swap is to be had here")
        try:
            with pytest.raises(InputError, match=f"came into use: {disk.name} is swap space in use"):
                still(console, device)
        finally:
            subprocess.run(["swapoff", disk], check=True)


def test_another_medium_in_the_reader_while_one_was_asked(tmp_path: Path) -> None:
    with shell("sh", "-i") as console:
        with loop_disk(tmp_path / "backing", 8 * MIB) as disk:
            device = the_disk(disk.name, disks(console))
        subprocess.run(["losetup", disk, tmp_path / "backing"], check=True)
        try:
            with pytest.raises(InputError, match="is another disk than the one confirmed"):
                still(console, device)
        finally:
            subprocess.run(["losetup", "--detach", disk], check=True)


class Cut:
    """A network that ends early."""

    most = 2**26

    def command(self, data: memoryview) -> str:
        return f"head -c {len(data) // 2} /dev/zero"


def test_a_transfer_that_is_cut_is_an_error_at_once(disk: Path, tmp_path: Path) -> None:
    with shell("sh", "-i") as console:
        device = the_disk(disk.name, disks(console))
        with pytest.raises(HostError, match=r"could not be written: expected \d+ bytes to arrive there"):
            flash(BoardDisk(console, device, Cut()), tmp_path)
    assert (tmp_path / "backing").read_bytes()[:4096] == bytes(4096)


class Wrong:
    """A carrier that spoils a byte: found by the digest that is made there."""

    most = 2**26

    def __init__(self, network: Network) -> None:
        self.network = network

    def command(self, data: memoryview) -> str:
        spoilt = bytearray(data)
        if len(data) == 256 * KIB:
            spoilt[1000] ^= 1
        self.kept = memoryview(spoilt)
        return self.network.command(self.kept)


def test_what_did_not_arrive_as_it_was_sent_is_found_there(disk: Path, tmp_path: Path) -> None:
    with shell("sh", "-i") as console:
        device = the_disk(disk.name, disks(console))
        network = Network(console, "127.0.0.1")
        try:
            with pytest.raises(IntegrityError, match=r"bytes 1572864 to 1835008: expected SHA-256"):
                flash(BoardDisk(console, device, Wrong(network)), tmp_path)
        finally:
            network.close()
    assert (tmp_path / "backing").read_bytes()[:MIB] == bytes(MIB)


def test_a_board_that_does_not_reach_this_host_and_a_bad_address(tmp_path: Path) -> None:
    for name in ("sh", "sha256sum", "cut", "cat", "sed", "printf", "dmesg", "stty", "base64", "wc"):
        path = Path("/usr/bin") / name
        (tmp_path / name).symlink_to(path if path.exists() else Path("/bin") / name)
    with shell("sh", "-i", PATH=str(tmp_path)) as console:
        with pytest.raises(HostError, match="it has no curl, wget or bash") as raised:
            Network(console, "127.0.0.1")
        assert "--serve line" in str(raised.value.hint)
    with shell("sh", "-i") as console:
        for address in ("127.0.0.1:many", "nowhere.invalid"):
            with pytest.raises(InputError, match="--serve: "):
                Network(console, address)


def test_nobody_else_is_given_the_bytes() -> None:
    import urllib.error
    import urllib.request

    with shell("sh", "-i") as console:
        network = Network(console, "127.0.0.1")
        try:
            word = next(w for w in network.command(b"secret").split() if w.startswith("http://"))
            with urllib.request.urlopen(word) as answer:
                assert answer.read() == b"secret"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(word[:-1] + "%C3%A4")
        finally:
            network.close()


def test_the_disk_s_name_cannot_leave_its_directory() -> None:
    class Hostile:
        def run(self, command: str, _: float = 30.0) -> object:
            from boardwright.console.shell import Result

            return Result("../../etc/passwd=x\n" if "sys/block" in command else "", 0)

    from boardwright.errors import ProductError

    with pytest.raises(ProductError, match="it tells of a disk"):
        boarddisk.disks(Hostile())  # type: ignore[arg-type]
