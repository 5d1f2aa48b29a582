"""The 1024-byte header is taken as the vendor's U-Boot takes it, and every field that is wrong is named."""

from __future__ import annotations

import hashlib
import io
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import ExitStatus, InputError, IntegrityError
from boardwright.vendor import axera_header
from boardwright.vendor.axera_header import (
    CIPHERED,
    RSA_3072,
    SIGNED,
    SIZE,
    Digest,
    Header,
    check,
    pack,
    parse,
)

PAYLOAD = b"\xd0\x0d\xfe\xed" + bytes(range(256)) * 5
words = st.integers(0, 0xFFFFFFFF)


def wrapped(payload: bytes = PAYLOAD, capability: int = 0) -> bytes:
    target = io.BytesIO()
    axera_header.wrap(io.BytesIO(payload), target, capability)
    return target.getvalue()


def resummed(image: bytes) -> bytes:
    """The same header with a checksum that holds, so that the next rule is what judges it."""
    return struct.pack("<I", axera_header.word_sum(image[4:SIZE])) + image[4:]


def with_field(offset: int, value: bytes) -> bytes:
    image = wrapped()
    return resummed(image[:offset] + value + image[offset + len(value) :])


def test_the_layout_is_the_one_of_natural_alignment() -> None:
    """Every offset written out: a change of the struct must not go unseen."""
    image = wrapped(b"x" * 8)
    assert len(image) == SIZE + 8
    assert image[8:14] == b"AXERA!"
    assert image[14:16] == b"\0\0"
    assert struct.unpack_from("<I", image, 16) == (SIZE + 8,)
    assert image[20:52] == hashlib.sha256(b"x" * 8).digest()
    assert image[52:1024] == bytes(972)
    assert struct.unpack_from("<I", image)[0] == sum(struct.unpack("<255I", image[4:1024])) % 2**32
    fields = Header(SIZE + 1, b"d" * 32, SIGNED, 1, b"n" * 384, 2, 3, 4, b"s" * 384, b"pp", b"r" * 188)
    packed = pack(fields)
    assert packed[52:56] == struct.pack("<I", 1)
    assert packed[56:440] == b"n" * 384
    assert packed[440:448] == struct.pack("<2I", 2, 3)
    assert packed[448:452] == struct.pack("<I", 4)
    assert packed[452:836] == b"s" * 384
    assert packed[836:] == b"r" * 188


@given(
    payload=st.binary(min_size=1, max_size=3000),
    tail=st.binary(max_size=64),
    capability=words.map(lambda bits: bits & ~(SIGNED | CIPHERED)),
)
def test_what_is_wrapped_is_unwrapped_whatever_follows_it(
    payload: bytes, tail: bytes, capability: int
) -> None:
    image = wrapped(payload, capability)
    target = io.BytesIO()
    header = axera_header.unwrap(io.BytesIO(image + tail), target)
    assert target.getvalue() == payload
    assert header.capability == capability
    assert header.payload_size == len(payload)
    assert check(io.BytesIO(image + tail)) == (header, Digest.MATCHES)


@given(
    size=st.integers(SIZE + 1, 2**31 - 1),
    digest=st.binary(min_size=32, max_size=32),
    capability=words,
    numbers=st.tuples(words, words, words, words),
    modulus=st.binary(min_size=384, max_size=384),
    padding=st.binary(min_size=2, max_size=2),
    reserved=st.binary(min_size=188, max_size=188),
)
def test_every_field_survives_a_round_trip(
    size: int,
    digest: bytes,
    capability: int,
    numbers: tuple[int, int, int, int],
    modulus: bytes,
    padding: bytes,
    reserved: bytes,
) -> None:
    header = Header(
        size, digest, capability, numbers[0], modulus, numbers[1], numbers[2], numbers[3],
        b"\1" + bytes(383), padding, reserved,
    )  # fmt: skip
    assert parse(pack(header)) == header


@given(at=st.integers(0, SIZE - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_of_a_header_goes_unseen(at: int, bit: int) -> None:
    image = bytearray(wrapped())
    image[at] ^= 1 << bit
    with pytest.raises((InputError, IntegrityError)) as raised:
        parse(bytes(image), "dtb.img")
    assert str(raised.value.place) == "dtb.img"
    if not 8 <= at < 14:
        assert raised.value.exit_status is ExitStatus.INTEGRITY
        assert "checksum is" in raised.value.message


@given(data=st.binary(max_size=1100))
def test_no_bytes_cause_anything_but_an_answer(data: bytes) -> None:
    with pytest.raises((InputError, IntegrityError)):
        parse(data)


def test_a_flipped_bit_of_the_payload_shows_in_the_digest_alone() -> None:
    image = bytearray(wrapped())
    image[SIZE + 5] ^= 1
    assert check(io.BytesIO(bytes(image)))[1] is Digest.DIFFERS


def test_a_header_without_a_digest_says_so() -> None:
    assert check(io.BytesIO(with_field(20, bytes(32))))[1] is Digest.ABSENT


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE, 2**31, 2**32 - 1])
def test_an_image_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"image_size: expected 1025 to 2147483647 .*found {size}"):
        parse(with_field(16, struct.pack("<I", size)))


def test_a_cut_payload_is_refused_with_both_sizes() -> None:
    with pytest.raises(IntegrityError, match=r"expected a payload of 1284 bytes.*found 1274") as raised:
        check(io.BytesIO(wrapped()[:-10]), "boot_signed.bin")
    assert str(raised.value.place) == "boot_signed.bin"


def test_a_cut_header_is_refused() -> None:
    with pytest.raises(InputError, match="expected a header of 1024 bytes, found 1000"):
        parse(wrapped()[:1000])


def test_signed_without_a_signature_is_refused() -> None:
    with pytest.raises(InputError, match="says signed"):
        parse(with_field(4, struct.pack("<I", SIGNED)))


def test_capability_bits_are_told_apart() -> None:
    image = with_field(4, struct.pack("<I", SIGNED | CIPHERED | RSA_3072))
    header = parse(resummed(image[:452] + b"\1" + image[453:]))
    assert (header.signed, header.ciphered, header.key_bits) == (True, True, 3072)
    plain = parse(wrapped())
    assert (plain.signed, plain.ciphered, plain.key_bits) == (False, False, 2048)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (struct.pack("<II", 0, 0x55543322), "mask ROM"),
        (b"AXERA!\0\0" + bytes(8), "older 64-byte header"),
        (b"\xd0\x0d\xfe\xed" + bytes(100), "bare payload"),
        (bytes(56) + b"ARM\x64", "bare payload"),
        (b"", None),
    ],
    ids=["ROM header", "old header", "device tree", "arm64 Image", "empty"],
)
def test_what_is_taken_for_it_by_mistake_is_recognised(start: bytes, hint: str | None) -> None:
    with pytest.raises(InputError, match="expected AXERA! at byte 8") as raised:
        parse(start)
    assert (raised.value.hint is None) if hint is None else hint in str(raised.value.hint)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"digest": b"short"}, "digest: expected 32 bytes, found 5"),
        ({"modulus": b""}, "modulus: expected 384"),
        ({"signature": bytes(385)}, "signature: expected 384"),
        ({"padding": b""}, "padding: expected 2"),
        ({"reserved": b""}, "reserved: expected 188"),
        ({"capability": -1}, "capability: expected 32 bits"),
        ({"key_n_header": 2**32}, "key_n_header: expected 32 bits"),
        ({"key_e_header": 2**32}, "key_e_header: expected 32 bits"),
        ({"exponent": 2**32}, "exponent: expected 32 bits"),
        ({"signature_header": 2**32}, "signature_header: expected 32 bits"),
        ({"image_size": SIZE}, "image_size: expected 1025"),
        ({"capability": SIGNED}, "needs a signature"),
    ],
)
def test_a_field_that_does_not_fit_is_not_written(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        pack(replace(Header(SIZE + 1), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("capability", [SIGNED, CIPHERED])
def test_wrap_claims_no_keys(capability: int) -> None:
    with pytest.raises(InputError, match="no keys"):
        wrapped(capability=capability)


def test_an_empty_payload_is_not_wrapped() -> None:
    with pytest.raises(InputError, match="payload is empty"):
        wrapped(b"")


def test_a_header_is_put_before_a_payload_once() -> None:
    once = io.BytesIO()
    axera_header.wrap(io.BytesIO(b"kernel" * 100), once)
    with pytest.raises(InputError, match="it has such a header already") as caught:
        axera_header.wrap(io.BytesIO(once.getvalue()), io.BytesIO())
    assert "vendor unwrap" in (caught.value.hint or "")
