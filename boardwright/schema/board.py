"""``boards/<name>/board.yaml`` as typed objects. Editors show the texts below names, through JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, dataclass_transform

import msgspec

from boardwright.schema.units import Size, SizeOrRest
from boardwright.schema.words import (
    Address,
    DeviceTree,
    FileName,
    HostName,
    MountPoint,
    Name,
    PasswordHash,
    Positive,
    Processors,
    RelativePath,
    Sha256,
    SshKey,
    Url,
)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab", kw_only=True):
    """Base of every object of a file: immutable, unknown keys refused, keys written with dashes."""


class Cma(Record):
    """The contiguous memory area, given to the kernel as ``cma=``."""

    size: Size
    """A multiple of 4 MiB."""
    below: Size = Size(2**32)
    """The area ends below this physical address."""


class Region(Record):
    """Memory that firmware and drivers find at a fixed address; the kernel knows it from the device tree."""

    name: Name
    address: Address
    size: Size


class Pool(Record):
    """A pool of CMM memory at an address of its own, for cards and boards with more than one."""

    address: Address
    size: Size
    name: Name = "anonymous"


class Memory(Record):
    """What the board has and how it is divided."""

    dram: Size
    cma: Cma | None = None
    base: Address = 0
    """Physical address where DRAM begins."""
    linux: Size | None = None
    """Linux gets this much from ``base`` on, as ``mem=``; left out: what ``cmm`` leaves."""
    cmm: Size | None = None
    """The NPU's memory, one pool behind Linux, as ``cmmpool=``; left out: what ``linux`` leaves."""
    cmm_for: Name | None = None
    """A model that must fit; without ``linux`` and ``cmm`` the pool is made for it."""
    pools: list[Pool] = []
    """Instead of ``cmm``: pools one by one, as the vendor's scripts may have them."""
    reserved: list[Region] = []
    """No pool may touch these."""


class Pace(Record):
    """Sending to a receiver without flow control that loses what comes too fast."""

    chunk: Positive
    """Bytes sent at once."""
    delay_ms: Annotated[int, msgspec.Meta(ge=1, le=1000, description="milliseconds, 1000 at most")]
    """Milliseconds until the next ones."""


class Console(Record):
    """The serial console."""

    baud: Positive
    """Bits per second."""
    device: FileName
    """The serial device as Linux names it on the board, such as ``ttyS2``."""
    emulated_device: FileName = "ttyAMA0"
    """The same in the emulator."""
    stop_autoboot: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "space"
    """What stops the loader's countdown: ``enter``, ``space``, ``escape``, ``ctrl-c``, ``tab``, or a text."""
    pace: Pace | None = None
    """When the board loses what is typed too fast."""


class Kernel(Record):
    """Which kernel, and what this board adds to its recipe."""

    recipe: Name
    """A recipe of kind ``kernel`` or ``debian-kernel``."""
    device_tree: DeviceTree
    """Path below the kernel's ``arch/arm64/boot/dts``, such as ``rockchip/rk3588-rock-5b.dtb``."""
    config: list[RelativePath] = []
    """Fragments in ``recipes/linux/`` after the recipe's own."""
    patches: list[Name] = []
    """Topics in ``patches/kernel/`` after the recipe's own."""


class RootFileSystem(Record):
    """Which root file system, and what this board adds to it."""

    recipe: Name
    """A recipe of kind ``rootfs``."""
    overlays: list[Name] = msgspec.field(default_factory=lambda: ["common"])
    """Trees in ``overlays/rootfs/``, later ones win."""
    modules_load: list[FileName] = []
    """Kernel modules that systemd loads at boot."""


class Boot(Record):
    """From power-on to the kernel."""

    loader: Name | None = None
    """The loader's recipe, of kind ``u-boot``; without one the board boots with what its flash holds."""
    script: RelativePath = "extlinux.conf.j2"
    """Template in the board's directory."""
    overlays: list[Name] = []
    """Device-tree overlays the loader applies, names in ``overlays/device-tree/<board>/``."""
    append: str = ""
    """More words for the kernel command line."""


class Hole(Record):
    """Bytes outside every partition that a boot ROM or loader owns."""

    name: str
    offset: Size
    size: Size
    contents: FileName | None = None
    """File among the loader's outputs, such as ``idbloader.img``."""


class Partition(Record):
    """An entry of the partition table; entries follow each other on the disk as in the file."""

    name: str
    """The partition's name: in a GPT 36 UTF-16 units at most; in blkdevparts as the loader looks it up."""
    size: SizeOrRest
    """``rest``, for the last one: what the others leave."""
    filesystem: Literal["vfat", "ext4", "raw"]
    contents: Literal[
        "boot", "rootfs", "uboot", "uboot-backup", "env", "logo", "dtb", "kernel", "atf", "optee", "data"
    ]
    grow: bool = False
    """Whether the first boot extends it to the end of the medium; only the last one can."""
    at: Size | None = None
    """Where it must begin, because a boot ROM or loader looks there; a layout that moves it is refused."""
    mount: MountPoint | None = None
    """Where the board's fstab mounts it; ``/`` for the root file system."""


class Disk(Record):
    """The image as a disk."""

    size: Size
    """Of the image; the medium may be larger."""
    table: Literal["gpt", "blkdevparts"] = "gpt"
    """``blkdevparts``: no table on the medium, the kernel's command line names the partitions."""
    device: FileName = "mmcblk0"
    """The medium as Linux names it, for ``blkdevparts``."""
    shipped: Name | None = None
    """The layout a board leaves the vendor with, a preset of ``boardwright/layout/presets.py``."""
    first_partition: Size = Size(16 * 2**20)
    """Where the first partition begins; ``blkdevparts`` always begins at 0."""
    align: Size = Size(2**20)
    """Partitions begin and end at multiples of this: a power of two, 4 KiB at least."""
    holes: list[Hole] = []


class Emulation(Record):
    """How QEMU stands in for the board; see ``docs/decisions`` for why two CPUs at least."""

    machine: Literal["virt"] = "virt"
    cpu: FileName = "cortex-a76"
    """A name that ``qemu-system-aarch64 -cpu help`` lists."""
    cpus: Processors = 2
    memory: Size = Size(2 * 2**30)


class Vendor(Record):
    """A file that may not be redistributed: the user supplies it; it is named by SHA-256."""

    sha256: Sha256
    size: Positive | None = None
    """Bytes; may be left out, the SHA-256 decides."""
    path: str | None = None
    """From the project's directory, or absolute; instead of ``url``."""
    url: Url | None = None
    """Where it is fetched; instead of ``path``."""


class Variant(Record):
    """Changes to the board for ``--variant``."""

    summary: str
    kernel: Name | None = None
    """Another kernel recipe, without the board's own fragments and patches."""
    rootfs: Name | None = None
    """Another recipe of kind ``rootfs``."""
    append: str = ""
    """More words for the kernel command line, after the board's own."""
    overlays: list[Name] = []
    """More device-tree overlays that the loader applies, after the board's own."""
    loader: bool = True
    """Whether the image carries the board's loader."""


class Board(Record):
    """Everything boardwright knows about a board."""

    board: Name
    """The name of its directory."""
    description: str
    soc: str
    """The system on chip, such as ``rk3588``."""
    memory: Memory
    console: Console
    kernel: Kernel
    rootfs: RootFileSystem
    boot: Boot
    disk: Disk
    partitions: list[Partition]
    """In the order they have on the disk; one with the boot files, one with the root file system."""
    emulation: Emulation = Emulation()
    vendor: dict[str, Vendor] = {}
    """Files that recipes ask for by name, such as ``rk3588-ddr``."""
    variants: dict[str, Variant] = {}
    """By the name that ``--variant`` takes."""
    expect: list[dict[str, Any]] = []
    """Expected results: ``check``, ``evidence`` and what that check compares with."""


class OwnModel(Record):
    """A file of a language model for the image; what is left out is as ``recipes/models.yaml`` says."""

    path: str | None = None
    """From the project's directory, or absolute; instead of fetching it."""
    sha256: Sha256 | None = None


class Local(Record):
    """``local.yaml``: what is the user's alone and never committed."""

    ssh_authorized_keys: list[SshKey] = []
    """Public keys that may log in as root, a line of ``authorized_keys`` each."""
    root_password_hash: PasswordHash | None = None
    """As ``mkpasswd -m yescrypt`` prints it."""
    hostname: HostName | None = None
    """Instead of the board's name."""
    vendor: dict[str, Vendor] = {}
    """These stand before the board's own of the same name."""
    models: dict[FileName, OwnModel] = {}
    """Files of language models that the image carries, such as ``stories110M.bin: {}``."""
    devices: dict[Name, str] = {}
    """Serial numbers of the disks that ``invoke flash --to NAME`` writes, such as ``sd: 0x1a2b3c4d``."""
