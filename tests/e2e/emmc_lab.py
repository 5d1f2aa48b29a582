"""A board in QEMU whose U-Boot finds its environment, kernel and root on an eMMC laid out as shipped.

Modelled, not the vendor's: U-Boot is Debian's for QEMU, told in its own environment to do what ``axera_boot``
does. It has no MMC driver, so it reads the eMMC through a read-only virtio disk on the same file. The eMMC
is an SD card (``-device sd-card``; QEMU 10 solders its ``emmc`` to other boards), which Linux calls
``mmcblk0`` as well. The kernel is the project's own for the Rock-5B, with ``CONFIG_CMDLINE_PARTITION``: it
takes ``blkdevparts=``.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import random
import re
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from command import ROOT

from boardwright.build import executor, sandbox
from boardwright.console.transport import SerialPort
from boardwright.kinds.board import QEMU_ENVIRONMENT
from boardwright.repartition import parts, ubootenv
from boardwright.repartition import stick as rescue
from boardwright.verbs.build import builder, environment
from boardwright.verbs.common import request

MIB = 2**20
SHIPPED = (
    "mmcblk0:1536K(uboot),1536K(uboot_bk),1M(env),20M(param),6M(logo),1M(dtb),64M(kernel),1M(atf),1M(optee),"
    "24576M(rootfs),512M(soc),4096M(opt)"
)
"""The table of AX650_pipro_box with OP-TEE (KU include/configs/ax650_common.h, B build/projects)."""
SIZE = 32 * 2**30
ENVIRONMENT = 0x300000
KERNEL = 0x1F00000
INIT = "/usr/lib/boardwright/rescue-init"
_LINUX, _DEBIAN = "linux-7.3", "linux-debian-6.12"
_KERNEL_AT, _FLASH_ENVIRONMENT = 0x40400000, 0x40000
_BOARD_INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for pair in 4:/param 11:/soc 12:/opt; do
    mount -t ext4 "/dev/mmcblk0p${pair%%:*}" "${pair#*:}" || echo "BOARD-FAULT $pair"
done
echo BOARD-BEGIN
sed 's/.*blkdevparts=\\([^ ]*\\).*/BOARD-LAYOUT \\1/' /proc/cmdline
find /data /param /soc /opt -type f ! -name boots | sort | xargs sha256sum | sed 's/^/BOARD-FILE /'
echo boot >>/soc/boots
echo "BOARD-BOOTS $(wc -l </soc/boots)"
if [ -e /etc/shell ]; then
    mount -t tmpfs tmpfs /run
    echo BOARD-END
    trap 'sync; mount -o remount,ro /; busybox reboot -f' TERM # as an init that reboot(8) asks
    while :; do
        setsid -c sh -i </dev/console >/dev/console 2>&1 &
        wait
    done
fi
umount /param /soc /opt
mount -o remount,ro /
sync
echo BOARD-END
poweroff -f
sleep 60
"""
_TOOLS = "sh mount umount sed find sort xargs sha256sum wc sync poweroff sleep"
_SHELL_TOOLS = (
    "base64 cat chmod cp cut dd dmesg grep head id mkdir mv printf reboot rm setsid stat tail test tr true"
)


@dataclass(frozen=True)
class Report:
    """What the board's own system says of itself."""

    layout: str
    files: dict[str, str]
    boots: int
    faults: list[str]
    resumed: bool
    """Whether the rescue system came up by itself before, and went on with its journal."""


@dataclass
class Board:
    """``directory`` holds ``emmc``, ``stick`` and ``flash``; ``root`` is the tool environment with QEMU."""

    directory: Path
    root: Path
    files: dict[str, str]

    @contextlib.contextmanager
    def powered(self) -> Iterator[tuple[subprocess.Popen[bytes], SerialPort]]:
        """On; off by SIGKILL at the end, or before: :func:`kill`."""
        with self.waiting() as (process, url):
            port = SerialPort(url)
            try:
                yield process, port
            finally:
                port.close()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        """On as soon as somebody opens the console, which is at this URL."""
        socket = self.directory / "serial"
        socket.unlink(missing_ok=True)
        seal = sandbox.Seal(root=self.root, read_only={}, writable={"/run/t": self.directory}, variables={})
        command = [
            "qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-smp", "2", "-m", "1G", "-nodefaults",
            "-display", "none", "-rtc", "base=utc",
            "-bios", "/usr/lib/u-boot/qemu_arm64/u-boot.bin",
            "-drive", "if=pflash,unit=1,format=raw,file=/run/t/flash",
            "-drive", "if=none,id=emmc,format=raw,file=/run/t/emmc,file.locking=off",
            "-device", "sdhci-pci", "-device", "sd-card,drive=emmc",
            "-drive", "if=none,id=window,format=raw,file=/run/t/emmc,file.locking=off,read-only=on",
            "-device", "virtio-blk-pci,drive=window",
            "-drive", "if=none,id=stick,format=raw,file=/run/t/stick",
            "-device", "qemu-xhci", "-device", "usb-storage,drive=stick",
            "-chardev", "socket,id=serial,path=/run/t/serial,server=on,wait=on", "-serial", "chardev:serial",
        ]  # fmt: skip
        with (self.directory / "stderr").open("wb") as errors:
            process = subprocess.Popen(
                sandbox.argv(seal, command), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        try:
            end = time.monotonic() + 30
            while not socket.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            assert socket.exists(), (self.directory / "stderr").read_text()
            time.sleep(0.2)
            yield process, f"unix://{socket}"
        finally:
            kill(process)

    def report(self, seconds: float = 240) -> Report:
        """Switch on, touch nothing, and hear what the board's own system says."""
        with self.powered() as (_, port):
            text = listen(port, "BOARD-END", seconds)
        return read_report(text)


def listen(port: SerialPort, until: str, seconds: float) -> str:
    """Everything up to a word. Raises ``AssertionError`` with the end of what came instead."""
    end = time.monotonic() + seconds
    heard = b""
    while time.monotonic() < end:
        heard += port.read(1.0)
        if until.encode() in heard:
            return heard.decode(errors="replace")
    raise AssertionError(f"no {until!r} within {seconds} s, but:\n{heard[-3000:].decode(errors='replace')}")


def read_report(text: str) -> Report:
    lines = text.replace("\r", "").split("\n")
    after = lambda word: [line.split(f"{word} ", 1)[1] for line in lines if line.startswith(f"{word} ")]  # noqa: E731
    return Report(
        layout=(after("BOARD-LAYOUT") or [""])[-1],
        files={
            path.strip(): digest for digest, path in (line.split(None, 1) for line in after("BOARD-FILE"))
        },
        boots=int((after("BOARD-BOOTS") or ["0"])[-1]),
        faults=after("BOARD-FAULT"),
        resumed="an interrupted run is resumed" in text,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The plug is pulled."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def busybox(initrd: Path) -> bytes:
    """The static arm64 busybox in an initramfs of ours (cpio newc)."""
    data, at = gzip.decompress(initrd.read_bytes()), 0
    while True:
        size, length = int(data[at + 54 : at + 62], 16), int(data[at + 94 : at + 102], 16)
        name = data[at + 110 : at + 110 + length - 1].decode()
        start = (at + 110 + length + 3) // 4 * 4
        if name == "bin/busybox":
            return data[start : start + size]
        assert name != "TRAILER!!!"
        at = (start + size + 3) // 4 * 4


def built(directory: Path, *, mem: str = "1024M", script: str = "") -> Board:
    """The board as :func:`make` has it, of what the project builds: kernel, busybox, stick and QEMU."""
    asked, quick = request(ROOT, "rock5b", ""), request(ROOT, "rock5b", "quick")
    image = executor.build(rescue.plan(asked.context), builder(asked))[rescue.RECIPE].out / rescue.IMAGE
    kernel = executor.build(asked.plan(_LINUX), builder(asked))[_LINUX].out / "Image"
    initrd = executor.build(quick.plan(_DEBIAN), builder(quick))[_DEBIAN].out / "initrd.img"
    tools = environment(asked, QEMU_ENVIRONMENT)
    return make(directory, tools, kernel, initrd, image, mem=mem, script=script)


def make(
    directory: Path,
    root: Path,
    kernel: Path,
    initrd: Path,
    stick: Path,
    *,
    mem: str = "1024M",
    script: str = "",
) -> Board:
    """The board as shipped, with data in every file system.

    ``script``: the text of its load script; a board that has one gives a shell and stays on.
    """
    chance, files = random.Random(7), {}
    emmc = directory / "emmc"
    with emmc.open("wb") as file:
        file.truncate(SIZE)
    with tempfile.TemporaryDirectory() as scratch:
        for part in parts.parse(SHIPPED, "mmcblk0", SIZE):
            tree = Path(scratch) / part.name
            if part.name in ("rootfs", "soc", "opt", "param"):
                tree.mkdir()
                top, mount = (tree / "data", "/data") if part.name == "rootfs" else (tree, f"/{part.name}")
                for number in range({"rootfs": 40, "soc": 20, "opt": 40, "param": 5}[part.name]):
                    path = top / f"d{number % 4}/file-{number}"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data := chance.randbytes(chance.choice((300, 40_000, 500_000))))
                    files[f"{mount}/d{number % 4}/file-{number}"] = hashlib.sha256(data).hexdigest()
                if part.name == "rootfs":
                    _system(tree, busybox(initrd), shell=bool(script))
                    if script:
                        _resize2fs(tree, stick)
                if part.name == "soc" and script:
                    (tree / "scripts").mkdir()
                    (tree / "scripts/auto_load_all_drv.sh").write_text(script)
                _file_system(emmc, part, tree)
    _boot_chain(directory, emmc, kernel, bootargs(mem=mem))
    _stick(directory, stick)
    return Board(directory, root, files)


def _system(tree: Path, program: bytes, *, shell: bool) -> None:
    for name in ("bin", "sbin", "dev", "proc", "sys", "run", "etc", "param", "soc", "opt"):
        (tree / name).mkdir()
    (tree / "bin/busybox").write_bytes(program)
    (tree / "bin/busybox").chmod(0o755)
    for name in (*_TOOLS.split(), *(_SHELL_TOOLS.split() if shell else ())):
        (tree / "bin" / name).symlink_to("busybox")
    if shell:
        (tree / "etc/shell").touch()
    (tree / "sbin/init").write_text(_BOARD_INIT)
    (tree / "sbin/init").chmod(0o755)


def _resize2fs(tree: Path, stick: Path) -> None:
    """With its libraries, as a vendor's root has it; from the stick's root file system."""

    def debugfs(request: str) -> str:
        command = ["debugfs", "-R", request, f"{stick}?offset={MIB}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    libraries = "/usr/lib/aarch64-linux-gnu"
    there = re.findall(r"\S+\.so\S*", debugfs(f"ls {libraries}"))
    (tree / "lib").mkdir()
    debugfs(f"dump /usr/sbin/resize2fs {tree}/sbin/resize2fs")
    for name in ("ld-linux-aarch64.so.1", "libc.so.6", "libcom_err.so.2", "libe2p.so.2", "libext2fs.so.2"):
        file = max((found for found in there if found.startswith(name)), key=len)  # not its symbolic link
        debugfs(f"dump {libraries}/{file} {tree}/lib/{name}")
    for path in (tree / "sbin/resize2fs", *(tree / "lib").iterdir()):
        assert path.stat().st_size, path
        path.chmod(0o755)


def _file_system(emmc: Path, part: parts.Part, tree: Path) -> None:
    # Few inodes and a small journal: what is copied in the emulator is the files, not tables of zeros.
    small = "-J size=4 -i 1048576" if part.size > 256 * MIB else ""
    options = f"-q -F -t ext4 -b 4096 {small} -O ^orphan_file,^metadata_csum_seed -L {part.name}".split()
    extended = (
        f"offset={part.offset},resize=8388608,nodiscard" if small else f"offset={part.offset},nodiscard"
    )
    command = ["mke2fs", *options, "-E", extended, "-d", str(tree), str(emmc), str(part.size // 4096)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def bootargs(layout: str = SHIPPED, mem: str = "1024M") -> str:
    words = f"mem={mem} console=ttyAMA0 loglevel=4 rootfstype=ext4 rw rootwait root=/dev/mmcblk0p10"
    return f"{words} blkdevparts={layout}"


def _boot_chain(directory: Path, emmc: Path, kernel: Path, words: str) -> None:
    """Environment and kernel on the eMMC; and in U-Boot's own flash, how to find them."""
    image = kernel.read_bytes()
    header = struct.pack("<II6sxxI", 0, 0, b"AXERA!", len(image) + 1024).ljust(1024, b"\0")
    with emmc.open("r+b") as file:
        file.seek(ENVIRONMENT)
        file.write(ubootenv.make({"bootargs": words, "bootcmd": "axera_boot", "bootdelay": "2"}))
        file.seek(KERNEL)
        file.write(header + image)
    at, sectors = 0x48000000, -(-(len(image) + 1024) // 512)
    own = {
        "bootdelay": "2",
        "preboot": "run load_env",
        "load_env": f"virtio dev 0; virtio read {at:x} {ENVIRONMENT // 512:x} 100; "
        f"env import -c {at:x} 20000 bootargs || run no_env",
        "no_env": f"echo compiled-in; setenv bootargs '{words}'",
        "bootcmd": "run axera_boot",
        "axera_boot": f"virtio read {_KERNEL_AT - 1024:x} {KERNEL // 512:x} {sectors:x}; "
        f"booti {_KERNEL_AT:x} - ${{fdtcontroladdr}}",
    }
    with (directory / "flash").open("wb") as file:
        file.write(ubootenv.make(own, _FLASH_ENVIRONMENT))
        file.truncate(64 * MIB)


def _stick(directory: Path, stick: Path) -> None:
    copy_sparse(stick, directory / "stick")
    with (directory / "stick").open("r+b") as file:
        file.truncate(2**30)


def copy_sparse(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--sparse=always", str(source), str(target)], check=True)
