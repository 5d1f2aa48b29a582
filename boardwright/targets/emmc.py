"""QEMU in place of an AX650 board, on the emulated eMMC, and what its U-Boot would do before the kernel.

The disk has no partition table. As on the board, ``bootargs`` of the environment at 0x300000 name the
partitions (``blkdevparts=``), and the partition ``kernel`` holds a header and the kernel (U-Boot 2020.04 of
the AX650 SDK, ``cmd/axera/download/sparse_img.c``, ``cmd/axera/boot/axera_boot.c``). The kernel gets those
very bootargs, but for the console: QEMU's ``virt`` has another serial port. The chip and its boot ROM are
not emulated, and the eMMC is an SD card on an SDHCI controller, for QEMU 10 lets an eMMC be soldered to its
own boards only (``hw/sd/sd.c``, ``emmc_class_init``); Linux calls both ``mmcblk0``.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from boardwright.bringup.parsers.storage import blkdevparts
from boardwright.errors import BoardwrightError, ProductError
from boardwright.vendor import axera_header, uboot_env

DEVICE = "mmcblk0"
ENVIRONMENT_AT = 0x300000
"""CONFIG_ENV_OFFSET of AX650_pipro_box_defconfig."""
CONSOLE = "ttyAMA0"
BLOCK = 65536
"""Bytes that ``qemu-img dd`` counts in."""

Read = Callable[[int, int], bytes]
"""Bytes of the disk from an offset, so many."""


@dataclass(frozen=True, slots=True)
class Boot:
    """``kernel``: the bare Image. ``append``: what the kernel is given."""

    kernel: bytes
    append: str


def emulated(bootargs: str) -> str:
    """The board's bootargs with QEMU's console in place of the board's.

    An ``earlycon`` at the board's address would wait for a transmitter that is not there, for ever.
    """
    words = [word for word in bootargs.split() if not word.startswith(("console=", "earlycon"))]
    return " ".join([f"console={CONSOLE}", *words])


def boot(read: Read, name: str) -> Boot:
    """What the disk boots. Raises ``ProductError`` where the board's U-Boot would not go on."""
    try:
        variables = uboot_env.parse(
            read(ENVIRONMENT_AT, uboot_env.SIZE), name=f"{name}: environment"
        ).variables
        bootargs = variables.get("bootargs", "")
        parts = {part.name: part for part in blkdevparts(bootargs).get(DEVICE, [])}
        if "kernel" not in parts:
            found = ", ".join(parts) or "none"
            raise ProductError(f"{name}: expected a partition kernel of {DEVICE} in bootargs, found {found}")
        kernel = parts["kernel"]
        head = axera_header.parse(read(kernel.offset, axera_header.SIZE), f"{name}: kernel")
        if kernel.size is not None and head.image_size > kernel.size:
            raise ProductError(
                f"{name}: the kernel's header says {head.image_size} bytes, its partition has {kernel.size}"
            )
        payload = io.BytesIO()
        axera_header.unwrap(io.BytesIO(read(kernel.offset, head.image_size)), payload, f"{name}: kernel")
    except ProductError:
        raise
    except BoardwrightError as error:
        raise ProductError(f"{name}: {error.message}", hint=error.hint) from error
    return Boot(payload.getvalue(), emulated(bootargs))


def devices() -> list[str]:
    """QEMU's arguments for the disk ``disk.qcow2`` of drive ``disk``."""
    return ["-device", "sdhci-pci", "-device", "sd-card,drive=disk"]
