"""QEMU from the tool environment shows the image to a machine, leaves it alone, and leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect
import pytest
from qemu_tools import qemu_root, small_image

from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed
from boardwright.errors import HostError, ProductError
from boardwright.schema.board import Emulation
from boardwright.sealed import fdt
from boardwright.targets import qemu

EXTLINUX = "default b\nlabel b\n linux /Image\n append root=PARTUUID=12 rw\n"
MACHINE = Emulation()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    qemu_root()
    return small_image(tmp_path_factory.mktemp("qemu"), EXTLINUX)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_boot_entry_is_read_out_of_the_image(image: Path, tmp_path: Path) -> None:
    entry = qemu.boot_entry(image, qemu_root(), tmp_path)
    assert (entry.kernel, entry.append) == ("/Image", "root=PARTUUID=12 rw")


def test_u_boot_finds_the_image_and_says_that_the_kernel_is_none(image: Path) -> None:
    before = digest(image)
    with (
        qemu.running(image, MACHINE, qemu_root(), qemu.Options(u_boot=True)) as machine,
        Console(machine, silence=60) as console,
        pytest.raises(BoardFailed) as caught,
    ):
        console.boot(180)
    assert "u-boot" in console.watch.milestones
    assert "loader" in str(caught.value)
    assert digest(image) == before


def test_a_machine_whose_pcie_does_not_snoop_differs_in_that_alone(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, fdt.Tree] = {}

    def look(coherent: bool) -> None:
        with tempfile.TemporaryDirectory() as name:
            monkeypatch.setattr(fdt, "without", erase if not coherent else lambda data, *_: data)
            command = qemu._base(image, MACHINE, qemu_root(), Path(name), qemu.Options(coherent=False))
            assert command[command.index("-dtb") + 1] == "/run/target/virt.dtb"
            seen[coherent] = fdt.read((Path(name) / "virt.dtb").read_bytes())

    erase = fdt.without
    look(True)
    look(False)
    port = next(node for node in seen[True] if node.startswith("/pcie@") and node.count("/") == 1)
    assert seen[True][port].pop("dma-coherent") == b""
    seen[True]["/"].pop("dma-coherent", None)
    for tree in seen.values():
        tree["/chosen"].clear()  # seeds, new in each run
    assert seen[True] == seen[False]


def test_a_device_that_qemu_does_not_know_is_told_with_qemus_own_words(image: Path) -> None:
    options = qemu.Options(devices=("flux-capacitor",))
    with (
        qemu.running(image, MACHINE, qemu_root(), options) as machine,
        Console(machine) as console,
        pytest.raises(HostError, match=r"QEMU ended with status 1: .*flux-capacitor"),
    ):
        console.boot(30)


def test_an_image_without_a_boot_entry_is_a_fault_of_the_image(tmp_path: Path) -> None:
    bare = small_image(tmp_path, "timeout 3\n")
    with (
        pytest.raises(ProductError, match="at least one 'label'"),
        qemu.running(bare, MACHINE, qemu_root(), qemu.Options()),
    ):
        pass


def test_a_root_without_qemu_is_refused_by_name(image: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(HostError, match="expected qemu-img"),
        qemu.running(image, MACHINE, tmp_path, qemu.Options()),
    ):
        pass


def test_a_machine_that_is_killed_is_a_lab_error(image: Path) -> None:
    with (
        qemu.running(image, MACHINE, qemu_root(), qemu.Options(u_boot=True)) as machine,
        Console(machine) as console,
    ):
        for pid in emulators(image):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(HostError, match="QEMU ended with status"):
            console.boot(60)


def test_nothing_is_left_after_a_with(image: Path) -> None:
    with qemu.running(image, MACHINE, qemu_root(), qemu.Options(u_boot=True)):
        assert emulators(image)
    assert not emulators(image)


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, living = tmp_path / f"bw-qemu-{ended.pid}-x", tmp_path / f"bw-qemu-{os.getpid()}-x"
    dead.mkdir()
    living.mkdir()
    qemu._sweep(tmp_path)
    assert (dead.exists(), living.exists()) == (False, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_nothing_is_left_when_we_are_ended(image: Path, number: signal.Signals) -> None:
    code = (
        "import sys; from pathlib import Path; from boardwright.schema.board import Emulation;"
        "from boardwright.targets import qemu\n"
        "image, root, options = Path(sys.argv[1]), Path(sys.argv[2]), qemu.Options(u_boot=True)\n"
        "with qemu.running(image, Emulation(), root, options):\n"
        "    print('up', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, image, qemu_root()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == b"up\n"
        assert emulators(image)
        child.send_signal(number)
        child.wait(20)
        assert gone(image)


def test_the_interactive_machine_has_the_terminal_and_gives_it_back(image: Path) -> None:
    code = (
        "import sys, termios; from pathlib import Path; from boardwright.schema.board import Emulation;"
        "from boardwright.targets import qemu\n"
        "before = termios.tcgetattr(0)\n"
        "image, root, options = Path(sys.argv[1]), Path(sys.argv[2]), qemu.Options(u_boot=True)\n"
        "status = qemu.interactive(image, Emulation(), root, options)\n"
        "print('ended', status, termios.tcgetattr(0) == before)"
    )
    terminal = pexpect.spawn(sys.executable, ["-c", code, str(image), str(qemu_root())], timeout=60)
    try:
        terminal.expect(r"U-Boot 20\d\d")
        terminal.send("\x01x")  # QEMU's own key for the end
        terminal.expect("ended 0 True")
        assert gone(image)
    finally:
        terminal.close(force=True)


def emulators(image: Path) -> list[int]:
    """Processes whose command line is QEMU's and whose mounts show this image."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and qemu.PROGRAM in (entry / "comm").read_text() + (entry / "cmdline").read_text()
            ):
                mounts = (entry / "mountinfo").read_text()
                if str(image.parent) in mounts:
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone(image: Path) -> bool:
    end = time.monotonic() + 10
    while emulators(image):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
