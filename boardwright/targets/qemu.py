"""QEMU in place of the board, on the very image, out of the sealed tool environment.

An emulated eMMC, without a partition table, boots as boardwright/targets/emmc.py says.

The image is never written: the machine gets a copy-on-write disk, larger than the image, so that the root
has room to grow into. Two ways to boot, both from what the image's own boot partition says: directly
(kernel, initrd and command line taken out of it), and through U-Boot, which reads it itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.build import sandbox
from boardwright.console.errors import ConsoleLost
from boardwright.console.transport import SerialPort
from boardwright.errors import HostError, InputError, ProductError
from boardwright.image import names
from boardwright.schema.board import Emulation
from boardwright.targets import emmc, extlinux, gpt

PROGRAM = "qemu-system-aarch64"
U_BOOT = "/usr/lib/u-boot/qemu_arm64/u-boot.bin"
_INSIDE = "/run/target"
_IMAGE = "/run/image"
FILES = "/run/files"
_TREE = "virt.dtb"
_START_SECONDS = 60.0
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """``grow_by``: bytes by which the disk is larger than the image. ``devices``: values of ``-device``.

    ``arguments``: further QEMU arguments, such as a ``-drive`` for one of the devices.
    ``files``: host files that QEMU may read, as ``/run/files/<name>``; the sandbox shows it no others.
    ``coherent``: whether the device tree says that PCIe snoops the processor's caches. QEMU's does, as memory
    is one; the kernel believes the tree, so it can be shown there how it treats a port that does not.
    """

    u_boot: bool = False
    grow_by: int = 2**30
    devices: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    coherent: bool = True
    card: bool = False
    """The disk is an SD card (boardwright/targets/emmc.py); QEMU takes sizes of a power of two only."""


class Machine:
    """A running QEMU. ``port`` is its serial console; see :func:`running`."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, port: SerialPort) -> None:
        self._process, self._directory, self.serial = process, directory, port

    def read(self, seconds: float) -> bytes:
        """As a port reads; a machine that ended is told apart from a port that broke."""
        try:
            return self.serial.read(seconds)
        except ConsoleLost as lost:
            raise self._ended() or lost from None

    def write(self, data: bytes) -> None:
        try:
            self.serial.write(data)
        except ConsoleLost as lost:
            raise self._ended() or lost from None

    def close(self) -> None:
        self.serial.close()

    def _ended(self) -> HostError | ProductError | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_END_SECONDS)
            if status == 0:
                return ProductError("the system switched itself off", hint="see the end of the transcript")
            return HostError(f"QEMU ended with status {status}: {_last_words(self._directory)}")
        return None


@contextlib.contextmanager
def running(image: Path, emulation: Emulation, root: Path, options: Options) -> Iterator[Machine]:
    """QEMU for the duration of a ``with``: gone afterwards, whatever happens, even to this process.

    ``root`` is the tool environment. Raises ``HostError`` when QEMU does not start, ``ProductError`` when
    the image cannot be booted for what it is.
    """
    with _directory() as directory:
        command = [*_base(image, emulation, root, directory, options), *_serial_on_socket()]
        with (directory / "stderr").open("wb") as errors:
            process = subprocess.Popen(
                _sealed(root, image, directory, command, options.files),
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                start_new_session=True,  # Ctrl-C is for us to handle, and then to end it in order
            )  # fmt: skip
        try:
            port = _connect(process, directory)
            try:
                yield Machine(process, directory, port)
            finally:
                port.close()
        finally:
            _end(process)


def interactive(image: Path, emulation: Emulation, root: Path, options: Options) -> int:
    """QEMU on this terminal (Ctrl-A X ends it); the terminal is as before afterwards. QEMU's status."""
    with _directory() as directory, _terminal_restored():
        command = [*_base(image, emulation, root, directory, options), "-serial", "mon:stdio"]
        return subprocess.call(_sealed(root, image, directory, command, options.files))


def boot_entry(image: Path, root: Path, directory: Path) -> extlinux.Entry:
    """What the image's boot partition would boot. Raises ``ProductError`` when it holds no such thing."""
    _take_out(image, root, directory, extlinux.PATH, "extlinux.conf")
    text = (directory / "extlinux.conf").read_text(errors="replace")
    return extlinux.default_entry(text, f"{image.name}:{extlinux.PATH}")


def _base(image: Path, emulation: Emulation, root: Path, directory: Path, options: Options) -> list[str]:
    on_emmc = names.is_emmc(image)
    if on_emmc and (options.u_boot or not options.coherent):
        raise InputError(
            f"{image.name} boots directly and as QEMU is: no U-Boot, no port that does not snoop"
        )
    _make_disk(image, root, directory, options.grow_by)
    board = [
        "-M", emulation.machine, "-cpu", emulation.cpu, "-smp", str(emulation.cpus),
        "-m", f"{emulation.memory // 2**20}M",
    ]  # fmt: skip
    machine = [
        PROGRAM, *board, "-rtc", "base=utc", "-nodefaults", "-display", "none",
        "-drive", f"if=none,id=disk,format=qcow2,file={_INSIDE}/disk.qcow2,discard=unmap",
        *(emmc.devices() if on_emmc or options.card else ["-device", "virtio-blk-pci,drive=disk"]),
        "-device", "virtio-rng-pci",
    ]  # fmt: skip
    if on_emmc:
        machine += _emmc_boot(image, root, directory)
    elif options.u_boot:
        machine += ["-bios", U_BOOT]
    else:
        machine += _direct_boot(image, root, directory)
    if not options.coherent:
        _without_snooping(image, root, directory, board)
        machine += ["-dtb", f"{_INSIDE}/{_TREE}"]
    for device in options.devices:
        machine += ["-device", device]
    return [*machine, *options.arguments]


def _without_snooping(image: Path, root: Path, directory: Path, board: list[str]) -> None:
    """Leave QEMU's own device tree in ``directory``, in which no PCIe port is ``dma-coherent``.

    The root is one too, and what is below inherits it (kernel 7.3 drivers/of/address.c, of_dma_is_coherent).
    """
    from boardwright.sealed import fdt

    machine, *rest = board[1:]
    dump = [PROGRAM, "-M", f"{machine},dumpdtb={_INSIDE}/{_TREE}", *rest, "-display", "none"]
    result = _tool(root, image, directory, dump)
    try:
        data = (directory / _TREE).read_bytes()
        for path, properties in fdt.read(data).items():
            if (path == "/" or path.startswith("/pcie@")) and "dma-coherent" in properties:
                data = fdt.without(data, path, "dma-coherent")
    except (OSError, fdt.NotATree) as error:
        raise HostError(f"QEMU gave no device tree: {result.stderr.strip() or error}") from error
    # QEMU dumps 1 MiB and makes more than twice of it when it takes it back; arm64 accepts 2 MiB at most
    # (kernel 7.3 Documentation/arch/arm64/booting.rst).
    (directory / _TREE).write_bytes(fdt.packed(data))


def _emmc_boot(image: Path, root: Path, directory: Path) -> list[str]:
    def read(offset: int, count: int) -> bytes:
        """Whole blocks from the one wanted; ``count`` of qemu-img may or may not include what is skipped."""
        first, last = offset // emmc.BLOCK, -(-(offset + count) // emmc.BLOCK)
        piece = [f"bs={emmc.BLOCK}", f"skip={first}", f"count={last}"]
        where = [f"if={_IMAGE}/{image.name}", f"of={_INSIDE}/piece"]
        result = _tool(root, image, directory, ["qemu-img", "dd", "-f", "qcow2", "-O", "raw", *piece, *where])
        if result.returncode != 0:
            raise ProductError(f"{image.name} cannot be read: {result.stderr.strip()}")
        with (directory / "piece").open("rb") as file:
            file.seek(offset - first * emmc.BLOCK)
            return file.read(count)

    found = emmc.boot(read, image.name)
    (directory / "kernel").write_bytes(found.kernel)
    return ["-kernel", f"{_INSIDE}/kernel", "-append", found.append]


def _direct_boot(image: Path, root: Path, directory: Path) -> list[str]:
    entry = boot_entry(image, root, directory)
    _take_out(image, root, directory, entry.kernel, "kernel")
    words = ["-kernel", f"{_INSIDE}/kernel", "-append", entry.append]
    if entry.initrd is not None:
        _take_out(image, root, directory, entry.initrd, "initrd")
        words += ["-initrd", f"{_INSIDE}/initrd"]
    return words


def _take_out(image: Path, root: Path, directory: Path, path: str, name: str) -> None:
    partitions = gpt.read(image)
    if not partitions:
        raise ProductError(f"expected a boot partition, but {image.name} has no partition")
    boot = next((p for p in partitions if p.name == "boot"), partitions[0])
    drive = f"{_IMAGE}/{image.name}@@{boot.offset}"
    result = _tool(root, image, directory, ["mcopy", "-n", "-i", drive, f"::{path}", f"{_INSIDE}/{name}"])
    if result.returncode != 0:
        raise ProductError(
            f"expected {path} in the partition {boot.name!r} of {image.name}: {result.stderr.strip()}"
        )


def _make_disk(image: Path, root: Path, directory: Path, grow_by: int) -> None:
    on_emmc = names.is_emmc(image)
    backing = f"{_IMAGE}/{image.name}"
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2" if on_emmc else "raw", "-b", backing]
    # An eMMC is as large as it is; a disk is a card, larger than the image on it.
    size = [] if on_emmc else [str(image.stat().st_size + grow_by)]
    result = _tool(root, image, directory, [*command, f"{_INSIDE}/disk.qcow2", *size])
    if result.returncode != 0:
        raise HostError(f"qemu-img made no disk: {result.stderr.strip()}")


def _tool(root: Path, image: Path, directory: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _sealed(root, image, directory, command),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


def _sealed(
    root: Path, image: Path, directory: Path, command: list[str], files: Mapping[str, Path] | None = None
) -> list[str]:
    if not (root / "usr/bin" / command[0]).exists():
        raise HostError(
            f"expected {command[0]} in the tool environment {root}", hint="see recipes/tools-qemu.yaml"
        )
    seal = sandbox.Seal(
        root=root,
        read_only={
            _IMAGE: image.resolve().parent,
            **{f"{FILES}/{name}": path.resolve() for name, path in (files or {}).items()},
        },
        writable={_INSIDE: directory},
        variables={"TMPDIR": _INSIDE, "MTOOLS_SKIP_CHECK": "1"},
    )
    return sandbox.argv(seal, command)


def _serial_on_socket() -> list[str]:
    """``wait=on``: the machine does not start before we listen, so the first byte is not lost."""
    listening = f"socket,id=serial,path={_INSIDE}/serial,server=on,wait=on"
    return ["-chardev", listening, "-serial", "chardev:serial"]


def _connect(process: subprocess.Popen[bytes], directory: Path) -> SerialPort:
    """Wait for QEMU's socket to exist, for at most a minute, or for QEMU to end."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise HostError(
                f"QEMU did not start (status {process.returncode}): {_last_words(directory)}",
                hint="is a device or an argument not one that QEMU knows?",
            )
        if (directory / "serial").exists():
            with contextlib.suppress(ConsoleLost):  # bound already, but not listening yet
                return SerialPort(f"unix://{directory}/serial")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise HostError(f"QEMU opened no serial port within {_START_SECONDS:.0f} s: {_last_words(directory)}")


def _last_words(directory: Path) -> str:
    lines = (directory / "stderr").read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End bwrap and, as its namespace's first process dies with it, everything inside."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A private directory for socket, disk and kernel; a short path, as a socket's has 108 bytes at most."""
    parent = Path(os.environ.get("TMPDIR", "/tmp"))
    _sweep(parent)
    directory = Path(tempfile.mkdtemp(prefix=f"bw-qemu-{os.getpid()}-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what a process left that was killed outright, and could not do it itself."""
    for left in parent.glob("bw-qemu-*-*"):
        owner = left.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _terminal_restored() -> Iterator[None]:
    import termios

    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
