"""What the emulated eMMC boots, and the one word for word reason when the board's U-Boot would not."""

from __future__ import annotations

import io
import struct

import pytest

from boardwright.errors import ProductError
from boardwright.sealed import axera
from boardwright.targets import emmc
from boardwright.vendor import axera_header, uboot_env

MIB = 2**20
BOOTARGS = (
    "mem=3072M console=ttyS0,115200n8 earlycon=uart8250,mmio32,0x2016000 board_id=0x0,boot_reason=0x0 "
    "root=/dev/mmcblk0p3 blkdevparts=mmcblk0:3M(uboot),1M(env),2M(kernel),8M(rootfs)"
)
KERNEL = b"kernel " * 1000


def disk(bootargs: str | None = BOOTARGS, kernel: bytes | None = None) -> bytearray:
    """An eMMC as the image steps make it: environment at 3 MiB, headed kernel at 4 MiB."""
    made = bytearray(14 * MIB)
    variables = {"bootdelay": "1"} | ({} if bootargs is None else {"bootargs": bootargs})
    block = uboot_env.make(uboot_env.Environment(variables))
    made[emmc.ENVIRONMENT_AT : emmc.ENVIRONMENT_AT + len(block)] = block
    headed = axera.header(KERNEL) + KERNEL if kernel is None else kernel
    made[4 * MIB : 4 * MIB + len(headed)] = headed
    return made


def boot(made: bytearray) -> emmc.Boot:
    return emmc.boot(lambda offset, count: bytes(made[offset : offset + count]), "toy.emmc.qcow2")


def test_kernel_and_bootargs_are_those_of_the_disk() -> None:
    found = boot(disk())
    assert found.kernel == KERNEL
    assert found.append == (
        "console=ttyAMA0 mem=3072M board_id=0x0,boot_reason=0x0 root=/dev/mmcblk0p3 "
        "blkdevparts=mmcblk0:3M(uboot),1M(env),2M(kernel),8M(rootfs)"
    )


def test_no_early_console_of_the_board_is_left() -> None:
    assert emmc.emulated("earlycon earlycon=uart8250,mmio32,0x2016000 console=ttyS0 quiet") == (
        "console=ttyAMA0 quiet"
    )


def test_both_makers_of_the_header_make_the_same_bytes() -> None:
    made = io.BytesIO()
    axera_header.wrap(io.BytesIO(KERNEL), made)
    assert axera.header(KERNEL) + KERNEL == made.getvalue()


def flipped(at: int) -> bytearray:
    made = disk()
    made[at] ^= 1
    return made


@pytest.mark.parametrize(("made", "said"), [
    (flipped(emmc.ENVIRONMENT_AT + 20), "CRC-32"),
    (flipped(4 * MIB + 8), "AXERA!"),
    (flipped(4 * MIB + 1000), "checksum"),
    (disk(bootargs=None), "expected a partition kernel of mmcblk0 in bootargs, found none"),
    (disk(BOOTARGS.replace("(kernel)", "(linux)")), "found uboot, env, linux, rootfs"),
    (disk(kernel=bytes(2048)), "AXERA!"),
    (disk(kernel=axera.header(bytes(3 * MIB))), "3146752 bytes, its partition has 2097152"),
], ids=["environment", "magic", "checksum", "no-bootargs", "no-kernel", "erased", "too-large"])  # fmt: skip
def test_what_u_boot_would_refuse_is_refused(made: bytearray, said: str) -> None:
    with pytest.raises(ProductError) as caught:
        boot(made)
    assert said in caught.value.message
    assert caught.value.message.startswith("toy.emmc.qcow2")


def test_the_size_in_the_header_counts_the_header() -> None:
    assert struct.unpack_from("<I", axera.header(KERNEL), 16) == (1024 + len(KERNEL),)
