"""The 1024 bytes before an AX650 kernel, device tree, BL31 or OP-TEE: read, check, make.

Sources: the vendor's U-Boot 2020.04, ``cmd/axera/secureboot/secureboot.h`` (struct secboot_image_header),
``secureboot.c`` (verify_image_header) and ``cmd/axera/boot/axera_boot.c``. That U-Boot checks the magic and
the word sum always; the signature only when the chip's secure-boot fuse is blown (or ``secureboot_test`` is
set), and then over a SHA-256 of the payload that it computes itself.

Inferred, and proven on no board: the byte offsets (natural alignment, which closes exactly at 1024), that the
digest field is the plain SHA-256 of the payload, and that a retail Maix-IV takes an unsigned image.
"""

from __future__ import annotations

import enum
import hashlib
import struct
from dataclasses import dataclass, replace
from typing import BinaryIO

from boardwright.errors import InputError, IntegrityError, Place
from boardwright.vendor.sparse import Source

SIZE = 1024
MAGIC = b"AXERA!"
_ROM_MAGIC = 0x55543322
"""Of what the mask ROM loads: U-Boot itself and the flash loader (secureboot.h, struct spl_header)."""
KEY_BYTES = 384
"""96 words: RSA-3072, or RSA-2048 and zeros."""

CIPHERED = 1 << 8
RSA_3072 = 1 << 10
SIGNED = 1 << 17

_FIELDS = struct.Struct("<II6s2sI32sI384sIII384s188s")
_LARGEST = 2**31 - 1
"""U-Boot passes the sizes on as int."""
_PIECE = 2**20


class Digest(enum.StrEnum):
    """What the digest field is worth. U-Boot compares it with nothing, so none of these keeps a board off."""

    MATCHES = "matches"
    ABSENT = "absent"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Header:
    """The fields as they stand; ``image_size``: bytes, with the header."""

    image_size: int
    digest: bytes = bytes(32)
    capability: int = 0
    key_n_header: int = 0
    modulus: bytes = bytes(KEY_BYTES)
    key_e_header: int = 0
    exponent: int = 0
    signature_header: int = 0
    signature: bytes = bytes(KEY_BYTES)
    padding: bytes = bytes(2)
    reserved: bytes = bytes(188)

    @property
    def payload_size(self) -> int:
        return self.image_size - SIZE

    @property
    def signed(self) -> bool:
        return bool(self.capability & SIGNED)

    @property
    def ciphered(self) -> bool:
        return bool(self.capability & CIPHERED)

    @property
    def key_bits(self) -> int:
        return 3072 if self.capability & RSA_3072 else 2048


def word_sum(data: bytes) -> int:
    """The wrapping sum of little-endian 32-bit words (secureboot.c, calc_check_sum)."""
    words: tuple[int, ...] = struct.unpack(f"<{len(data) // 4}I", data)
    return sum(words) & 0xFFFFFFFF


def parse(data: bytes, name: str = "header") -> Header:
    """The header that ``data`` begins with, as U-Boot judges it.

    Raises ``InputError`` when this is none, ``IntegrityError`` when its word sum does not hold.
    """
    place = Place(name)
    if data[8:14] != MAGIC:
        raise _other(data, place)
    if len(data) < SIZE:
        raise InputError(f"expected a header of {SIZE} bytes, found {len(data)}", place=place)
    stored, capability, _, padding, size, digest, *rest = _FIELDS.unpack(data[:SIZE])
    if stored != (found := word_sum(data[4:SIZE])):
        raise IntegrityError(
            f"the header's checksum is {stored:#010x}, its words add up to {found:#010x}",
            place=place,
            hint="the header was damaged or edited; U-Boot refuses it too",
        )
    key_n_header, modulus, key_e_header, exponent, signature_header, signature, reserved = rest
    if not SIZE < size <= _LARGEST:
        raise InputError(
            f"image_size: expected {SIZE + 1} to {_LARGEST} bytes with the header, found {size}", place=place
        )
    header = Header(
        size, digest, capability, key_n_header, modulus, key_e_header, exponent,
        signature_header, signature, padding, reserved,
    )  # fmt: skip
    if header.signed and not any(signature):
        raise InputError("capability says signed (bit 17), the signature is all zeros", place=place)
    return header


def pack(header: Header) -> bytes:
    """The 1024 bytes, with their checksum. Raises ``InputError`` for a field that does not fit."""
    lengths = {"digest": 32, "modulus": KEY_BYTES, "signature": KEY_BYTES, "padding": 2, "reserved": 188}
    for field, length in lengths.items():
        if len(value := getattr(header, field)) != length:
            raise InputError(f"{field}: expected {length} bytes, found {len(value)}")
    words = ("capability", "key_n_header", "key_e_header", "exponent", "signature_header")
    for field in words:
        if not 0 <= (number := getattr(header, field)) <= 0xFFFFFFFF:
            raise InputError(f"{field}: expected 32 bits, found {number:#x}")
    if not SIZE < header.image_size <= _LARGEST:
        raise InputError(f"image_size: expected {SIZE + 1} to {_LARGEST} bytes, found {header.image_size}")
    if header.signed and not any(header.signature):
        raise InputError("capability: signed (bit 17) needs a signature, and boardwright makes none")
    body = _FIELDS.pack(
        0, header.capability, MAGIC, header.padding, header.image_size, header.digest, header.key_n_header,
        header.modulus, header.key_e_header, header.exponent, header.signature_header, header.signature,
        header.reserved,
    )  # fmt: skip
    return struct.pack("<I", word_sum(body[4:])) + body[4:]


def check(file: Source, name: str = "image") -> tuple[Header, Digest]:
    """Header and payload of a file or a partition's dump; what follows the payload is not looked at.

    Raises what :func:`parse` raises, and ``IntegrityError`` when the payload is cut.
    """
    header = parse(file.read(SIZE), name)
    sha, left = hashlib.sha256(), header.payload_size
    while left and (data := file.read(min(left, _PIECE))):
        sha.update(data)
        left -= len(data)
    if left:
        raise IntegrityError(
            f"expected a payload of {header.payload_size} bytes (image_size {header.image_size}), "
            f"found {header.payload_size - left}",
            place=Place(name),
        )
    if not any(header.digest):
        return header, Digest.ABSENT
    return header, Digest.MATCHES if header.digest == sha.digest() else Digest.DIFFERS


def wrap(payload: BinaryIO, target: BinaryIO, capability: int = 0) -> Header:
    """Write header and payload to ``target`` (which can seek): unsigned, with the payload's SHA-256.

    Raises ``InputError`` for an empty or too large payload, and for a capability that it cannot keep.
    """
    if capability & (SIGNED | CIPHERED):
        raise InputError(f"capability {capability:#x} says signed or ciphered; boardwright has no keys")
    start, sha, size = target.tell(), hashlib.sha256(), 0
    target.write(bytes(SIZE))
    while data := payload.read(_PIECE):
        sha.update(data)
        if not size and data[8 : 8 + len(MAGIC)] == MAGIC:
            raise InputError(
                f"the payload begins with {MAGIC.decode()} at byte 8: it has such a header already",
                hint="U-Boot would load the header as the kernel; `invoke vendor unwrap` takes one off",
            )
        target.write(data)
        size += len(data)
        if size > _LARGEST - SIZE:
            raise InputError(f"the payload is larger than {_LARGEST - SIZE} bytes")
    if not size:
        raise InputError("the payload is empty")
    header = replace(Header(SIZE + size), digest=sha.digest(), capability=capability)
    target.seek(start)
    target.write(pack(header))
    target.seek(start + SIZE + size)
    return header


def unwrap(file: BinaryIO, target: BinaryIO, name: str = "image") -> Header:
    """Write the payload alone to ``target``. Raises what :func:`check` raises; a ciphered one stays so."""
    start = file.tell()
    header, _ = check(file, name)
    file.seek(start + SIZE)
    left = header.payload_size
    while left and (data := file.read(min(left, _PIECE))):
        target.write(data)
        left -= len(data)
    return header


def _other(data: bytes, place: Place) -> InputError:
    hint = None
    if len(data) >= 8 and struct.unpack_from("<I", data, 4)[0] == _ROM_MAGIC:
        hint = "this is what the mask ROM loads (U-Boot or the flash loader), which has a header of its own"
    elif data[:6] == MAGIC:
        hint = "this is the older 64-byte header of the NAND and PCIe paths"
    elif data[:4] == b"\xd0\x0d\xfe\xed" or data[56:60] == b"ARM\x64":
        hint = "this is a bare payload: `invoke vendor wrap` puts a header before it"
    found = data[8:14].hex(" ") or "nothing"
    return InputError(f"expected {MAGIC.decode()} at byte 8, found {found}", place=place, hint=hint)
