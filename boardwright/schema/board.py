"""``boards/<name>/board.yaml`` as typed objects. Field docs are what ``docs/board-file.md`` shows."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from boardwright.schema.units import Size


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", kw_only=True):
    """Base of every object of a file: immutable, unknown keys refused, keys written with dashes."""


class Cma(Record):
    """The contiguous memory area, given to the kernel as ``cma=``."""

    size: Size
    below: Size = Size(2**32)


class Memory(Record):
    dram: Size
    cma: Cma | None = None


class Console(Record):
    baud: int
    device: str
    """The serial device as Linux names it on the board, such as ``ttyS2``."""
    emulated_device: str = "ttyAMA0"


class Kernel(Record):
    recipe: str
    device_tree: str
    """Path below the kernel's ``arch/arm64/boot/dts``, such as ``rockchip/rk3588-rock-5b.dtb``."""
    config: list[str] = []
    """Fragments in ``recipes/linux/`` after the recipe's own."""
    patches: list[str] = []
    """Topics in ``patches/kernel/`` after the recipe's own."""


class RootFileSystem(Record):
    recipe: str
    overlays: list[str] = msgspec.field(default_factory=lambda: ["common"])
    """Trees in ``overlays/rootfs/``, later ones win."""
    modules_load: list[str] = []


class Boot(Record):
    loader: str | None = None
    """The loader's recipe."""
    script: str = "extlinux.conf.j2"
    """Template in the board's directory."""
    overlays: list[str] = []
    """Device-tree overlays the loader applies, names in ``overlays/device-tree/<board>/``."""
    append: str = ""
    """More words for the kernel command line."""


class Hole(Record):
    """Bytes outside every partition that a boot ROM or loader owns."""

    name: str
    offset: Size
    size: Size
    contents: str | None = None
    """File among the loader's outputs, such as ``idbloader.img``."""


class Partition(Record):
    name: str
    size: Size | Literal["rest"]
    filesystem: Literal["vfat", "ext4"]
    contents: Literal["boot", "rootfs"]
    grow: bool = False


class Disk(Record):
    size: Size
    first_partition: Size = Size(16 * 2**20)
    align: Size = Size(2**20)
    holes: list[Hole] = []


class Emulation(Record):
    """How QEMU stands in for the board; see ``docs/decisions`` for why two CPUs at least."""

    machine: Literal["virt"] = "virt"
    cpu: str = "cortex-a76"
    cpus: int = 2
    memory: Size = Size(2 * 2**30)


class Vendor(Record):
    """A file that may not be redistributed: the user supplies it; it is named by SHA-256."""

    sha256: str
    size: int | None = None
    """Bytes; may be left out, the SHA-256 decides."""
    path: str | None = None
    url: str | None = None


class Variant(Record):
    """Changes to the board for ``--variant``."""

    summary: str
    kernel: str | None = None
    """Another kernel recipe."""
    loader: bool = True


class Board(Record):
    board: str
    description: str
    soc: str
    memory: Memory
    console: Console
    kernel: Kernel
    rootfs: RootFileSystem
    boot: Boot
    disk: Disk
    partitions: list[Partition]
    emulation: Emulation = Emulation()
    vendor: dict[str, Vendor] = {}
    variants: dict[str, Variant] = {}
    expect: list[dict[str, Any]] = []
    """Expected results: ``check``, ``evidence`` and what that check compares with."""


class Local(Record):
    """``local.yaml``: what is the user's alone and never committed."""

    ssh_authorized_keys: list[str] = []
    root_password_hash: str | None = None
    """As ``mkpasswd -m yescrypt`` prints it."""
    hostname: str | None = None
    vendor: dict[str, Vendor] = {}
