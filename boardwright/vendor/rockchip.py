"""Rockchip's boot chain as bytes on a medium (RK3588): where each part is, and what is there.

The boot ROM loads the ID block (``idbloader.img``: DRAM initialisation and U-Boot's SPL), the SPL loads
the FIT (``u-boot.itb``: TF-A's BL31, U-Boot proper and its device tree). Pure functions over bytes; used on
an image after assembly, on what was read back from a card, and on SPI flash contents.

Sources: U-Boot 2025.01 ``tools/rkcommon.c`` (header, called "header0_info_v2" there),
``arch/arm/dts/rockchip-u-boot.dtsi`` and ``rk3588s-u-boot.dtsi`` (places), and the final configuration of
``rock5b-rk3588_defconfig``.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass

from boardwright.errors import ProductError
from boardwright.sealed import fdt

SECTOR = 512

IDBLOCK_SECTOR = 64
"""Of a card or eMMC: ``tools/rkcommon.c``, "stored at SD card block 64"."""
FIT_SECTOR = 16384
"""``CONFIG_SYS_MMCSD_RAW_MODE_U_BOOT_SECTOR``; also 64 sectors + ``CONFIG_SPL_PAD_TO`` (0x7f8000)."""
SPI_IDBLOCK_OFFSET = 0x8000
"""Bytes from the start of SPI flash: ``rk3588s-u-boot.dtsi``, node simple-bin-spi."""
SPI_FIT_OFFSET = 0x60000
"""``CONFIG_SYS_SPI_U_BOOT_OFFS`` of rock5b-rk3588_defconfig."""

LOADER_END = 16 * 2**20
"""The boot chain lies in a medium's first 16 MiB: U-Boot reads nothing of itself beyond, and boardwright's
partitions begin there."""

_MAGIC = b"RKNS"
_HEADER_SIZE = 2048
_HASHED_SIZE = 1536
"""The header's own hash covers what precedes it; the header says so in words of four bytes."""
_IMAGES_OFFSET = 120
_IMAGE = struct.Struct("<2H3I8x64s")
_IMAGES_MAX = 4
_SHA256 = 1
_NAMES = ("ddr", "spl")

_VERSIONS = {
    # The first line of a console log: "DDR 9fffbe1e78 cym 24/02/04-10:09:20,fwver: v1.16", of older blobs
    # "DDR V1.09 a930779e06 typ 22/11/21-17:50:56".
    "ddr": re.compile(rb"DDR (?:V\d+\.\d+ )?[0-9a-f]{8,12} [a-z.]{2,20} \d\d/\d\d/\d\d[^\0\n]{0,40}"),
    "spl": re.compile(rb"U-Boot SPL \d{4}\.\d\d[^\0\n]{0,120}"),
    # TF-A joins "BL31: " and this when it prints (Makefile, VERSION_STRING).
    "bl31": re.compile(rb"v\d+\.\d+(?:\.\d+)?\((?:release|debug)\):[^\0\n]{0,120}"),
    "u-boot": re.compile(rb"U-Boot \d{4}\.\d\d[^\0\n]{0,120}"),
}


class LoaderFault(ProductError):
    """Bytes of the boot chain that are not what the boot ROM or the SPL would accept."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the boot chain: bytes counted from where its container begins."""

    name: str
    offset: int
    size: int
    intact: bool | None
    """Whether its own SHA-256 holds; None when the container records none."""


@dataclass(frozen=True, slots=True)
class IdBlock:
    """The header the boot ROM looks for, and the images it names: DRAM initialisation, then the SPL."""

    parts: tuple[Part, ...]
    intact: bool
    """Whether the header's own hash holds."""

    @property
    def size(self) -> int:
        """Bytes from the header's start to the last image's end."""
        return max([_HEADER_SIZE, *(part.offset + part.size for part in self.parts)])


@dataclass(frozen=True, slots=True)
class Fit:
    """A FIT image with its data outside the tree, as the SPL loads it."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes from the tree's start to the last image's end."""
        return max((part.offset + part.size for part in self.parts), default=0)


@dataclass(frozen=True, slots=True)
class Versions:
    """What the parts call themselves; None where nothing of the kind was found."""

    ddr: str | None
    spl: str | None
    bl31: str | None
    u_boot: str | None


@dataclass(frozen=True, slots=True)
class Loader:
    """The boot chain of a medium; None for a part that is not there."""

    id_block: IdBlock | None
    fit: Fit | None
    versions: Versions


def id_block(data: bytes) -> IdBlock:
    """The ID block that ``data`` begins with.

    Raises :class:`LoaderFault` when the boot ROM would not take it for one, or an image reaches beyond
    ``data``. A hash that does not hold is no error here: it is what the result says.
    """
    if data[:4] != _MAGIC:
        raise LoaderFault(f"expected an ID block ({_MAGIC.decode()}), found {data[:4].hex(' ') or 'nothing'}")
    if len(data) < _HEADER_SIZE:
        raise LoaderFault(f"expected an ID block of {_HEADER_SIZE} bytes at least, found {len(data)}")
    hash_words, count, flags = struct.unpack_from("<2HI", data, 8)
    if hash_words * 4 != _HASHED_SIZE or not 1 <= count <= _IMAGES_MAX or flags & 0xF != _SHA256:
        raise LoaderFault(
            f"expected an ID block of 1 to {_IMAGES_MAX} images with SHA-256 at {_HASHED_SIZE}, "
            f"found {count} images, hash type {flags & 0xF} at {hash_words * 4}"
        )
    digest = hashlib.sha256(data[:_HASHED_SIZE]).digest()
    parts = tuple(_image(data, index) for index in range(count))
    return IdBlock(parts, intact=data[_HASHED_SIZE : _HASHED_SIZE + 32] == digest)


def _image(data: bytes, index: int) -> Part:
    offset, size, _address, _flag, _counter, digest = _IMAGE.unpack_from(
        data, _IMAGES_OFFSET + index * _IMAGE.size
    )
    name = _NAMES[index] if index < len(_NAMES) else f"image-{index + 1}"
    return _part(data, name, offset * SECTOR, size * SECTOR, digest[:32])


def _part(data: bytes, name: str, offset: int, size: int, digest: bytes | None) -> Part:
    held = data[offset : offset + size]
    if len(held) < size:
        raise LoaderFault(
            f"expected {name} of {size} bytes at {offset:#x}, found {len(held)} bytes",
            hint="the file was cut, or written only in part",
        )
    return Part(name, offset, size, None if digest is None else hashlib.sha256(held).digest() == digest)


def fit(data: bytes) -> Fit:
    """The FIT image that ``data`` begins with, its images with their data outside the tree.

    Raises :class:`LoaderFault` when it is none (U-Boot ``doc/usage/fit/source_file_format.rst``).
    """
    try:
        tree = fdt.read(data)
        start = -(-fdt.total_size(data) // 4) * 4
        names = [path.split("/")[2] for path in tree if re.fullmatch(r"/images/[^/]+", path)]
        parts = tuple(_fit_image(data, tree, name, start) for name in names)
    except fdt.NotATree as error:
        raise LoaderFault(f"expected U-Boot's FIT image: {error}") from error
    if not parts:
        raise LoaderFault("expected U-Boot's FIT image, found a device tree without /images")
    return Fit(parts)


def _fit_image(data: bytes, tree: fdt.Tree, name: str, start: int) -> Part:
    image = tree[f"/images/{name}"]
    try:
        (size,) = fdt.cells(image["data-size"])
        (offset,) = fdt.cells(image["data-position"] if "data-position" in image else image["data-offset"])
    except (KeyError, ValueError) as error:
        raise LoaderFault(f"expected image {name} of the FIT to have its data outside the tree") from error
    if "data-position" not in image:
        offset += start
    recorded = next((tree[path] for path in tree if re.fullmatch(rf"/images/{name}/hash[^/]*", path)), {})
    known = fdt.text(recorded.get("algo", b"")) == "sha256"
    return _part(data, name, offset, size, recorded.get("value") if known else None)


def versions(data: bytes) -> Versions:
    """The version strings in ``data``, of whatever parts are in it."""
    found = {name: pattern.search(data) for name, pattern in _VERSIONS.items()}
    text = {name: match[0].decode("ascii", "replace") if match else None for name, match in found.items()}
    return Versions(ddr=text["ddr"], spl=text["spl"], bl31=text["bl31"], u_boot=text["u-boot"])


def loader(
    head: bytes, *, id_block_at: int = IDBLOCK_SECTOR * SECTOR, fit_at: int = FIT_SECTOR * SECTOR
) -> Loader:
    """The boot chain in the first ``LOADER_END`` bytes of a card or eMMC.

    Of SPI flash with ``id_block_at=SPI_IDBLOCK_OFFSET, fit_at=SPI_FIT_OFFSET``. A part is None when its
    place does not begin with its magic number; raises :class:`LoaderFault` when it does and is damaged
    beyond reading.
    """
    first = id_block(head[id_block_at:]) if head[id_block_at:][:4] == _MAGIC else None
    second = fit(head[fit_at:]) if head[fit_at:][:4] == fdt.MAGIC.to_bytes(4, "big") else None
    held = head[id_block_at : id_block_at + first.size] if first else b""
    held += b"\0" + (head[fit_at : fit_at + second.size] if second else b"")
    return Loader(first, second, versions(held))


def faults(found: Loader) -> list[LoaderFault]:
    """Why this boot chain would not start; none for a medium without one, which the SPI flash boots."""
    if found.id_block is None and found.fit is None:
        return []
    wrong = []
    if found.id_block is None:
        wrong.append("expected an ID block before u-boot.itb, found none: the boot ROM passes this medium by")
    elif not found.id_block.intact:
        wrong.append("expected the ID block's header to match its SHA-256")
    if found.fit is None:
        wrong.append("expected u-boot.itb after the ID block, found none: the SPL would stop there")
    parts = [part for held in (found.id_block, found.fit) if held for part in held.parts]
    wrong += [
        f"expected {part.name} at {part.offset:#x} to match its SHA-256"
        for part in parts
        if part.intact is False
    ]
    return [LoaderFault(text) for text in wrong]
