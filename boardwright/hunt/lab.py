"""The Device memory lab: what QEMU gets beside the board, and how it is found again from the board's shell.

The BAR is ivshmem-plain's BAR 2: RAM behind a 64-bit prefetchable BAR, so that sysfs offers it twice, as
Device-nGnRE (``resource2``) and as Normal-NC (``resource2_wc``; kernel 7.3 Documentation/PCI/sysfs-pci.rst).
Programs come on read-only disks that hold a tarball as it is: the image is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from boardwright.console.console import Console
from boardwright.errors import HostError
from boardwright.targets.qemu import FILES, Options

_IDS = ("0x1af4", "0x1110")
"""Vendor and device of ivshmem-plain (QEMU docs/specs/ivshmem-spec.rst)."""
_DISK = "/dev/disk/by-id/virtio-"
SIZE = 64 * 2**20
"""Bytes of the BAR; a power of two."""
_UNPACK_SECONDS = 300.0


def options(disks: Mapping[str, Path], size: int = SIZE) -> Options:
    """A machine with the BAR, and a disk for each tarball of ``disks``, by name (20 characters at most)."""
    devices = ["ivshmem-plain,memdev=bar"]
    arguments = ["-object", f"memory-backend-ram,id=bar,size={size},share=on"]
    for name in disks:
        file = f"{FILES}/{name}"
        arguments += ["-drive", f"if=none,id=disk-{name},format=raw,readonly=on,file={file}"]
        devices.append(f"virtio-blk-pci,drive=disk-{name},serial={name}")
    return Options(devices=tuple(devices), arguments=tuple(arguments), files=dict(disks))


def bar(console: Console) -> str | None:
    """The BAR's path in sysfs as Device memory, its device enabled; None when the board has none."""
    vendor, device = _IDS
    found = console.run(
        "for d in /sys/bus/pci/devices/*; do "
        f'[ "$(cat $d/vendor) $(cat $d/device)" = "{vendor} {device}" ] && echo $d; done; :'
    ).output.split()
    if not found:
        return None
    enabled = console.run(f"echo 1 > {found[0]}/enable && test -w {found[0]}/resource2_wc")
    if enabled.status != 0:
        raise HostError(f"the BAR of {found[0]} cannot be mapped: {enabled.line or 'no resource2_wc'}")
    return f"{found[0]}/resource2"


def unpack(console: Console, disk: str, directory: str) -> bool:
    """Unpack a disk's tarball into a RAM file system at ``directory``; false when there is no such disk."""
    if console.run(f"test -b {_DISK}{disk}").status != 0:
        return False
    console.run(
        f"mkdir -p {directory}; mountpoint -q {directory} || mount -t tmpfs -o size=75% lab {directory}"
    )
    done = console.run(f"tar -xf {_DISK}{disk} -C {directory}", _UNPACK_SECONDS)
    if done.status != 0:
        raise HostError(f"the disk {disk!r} could not be unpacked: {done.line}")
    return True
