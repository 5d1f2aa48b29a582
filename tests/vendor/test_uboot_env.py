"""An environment survives a round trip, and a bad block is refused with its reason."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import ExitStatus, InputError, IntegrityError
from boardwright.vendor.uboot_env import SIZE, Environment, edited, make, newer, parse

BOOTARGS = "mem=3072M root=/dev/mmcblk0p10 blkdevparts=mmcblk0:1536K(uboot),1M(env)"
NORMAL = Environment({"bootargs": BOOTARGS, "bootdelay": "0", "empty": ""})

names = st.text(st.characters(codec="ascii", categories=["L", "N"]) | st.sampled_from("_.-"), min_size=1)
values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def block(data: bytes, size: int = 64, flag: bytes = b"") -> bytes:
    """A block with a CRC that holds."""
    body = data.ljust(size - 4 - len(flag), b"\0")
    return struct.pack("<I", zlib.crc32(body)) + flag + body


def test_the_block_is_the_one_that_u_boot_writes() -> None:
    made = make(NORMAL)
    assert len(made) == SIZE
    assert made[4:].startswith(b"bootargs=mem=3072M root=")
    assert b"\0bootdelay=0\0empty=\0\0" in made
    assert struct.unpack_from("<I", made)[0] == zlib.crc32(made[4:])
    assert parse(made) == NORMAL


@given(variables=st.dictionaries(names, values), flag=st.none() | st.integers(0, 255))
def test_variables_their_order_and_the_flag_survive(variables: dict[str, str], flag: int | None) -> None:
    environment = Environment(variables, 1 << 16, flag)
    found = parse(make(environment), redundant=flag is not None)
    assert found == environment
    assert list(found.variables) == list(variables)


@given(value=st.binary(max_size=40).filter(lambda v: b"\0" not in v))
def test_bytes_that_are_no_text_survive(value: bytes) -> None:
    raw = block(b"x=" + value + b"\0\0")
    assert make(parse(raw)) == raw


@given(at=st.integers(0, SIZE - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unseen(at: int, bit: int) -> None:
    damaged = bytearray(make(NORMAL))
    damaged[at] ^= 1 << bit
    with pytest.raises(IntegrityError, match="CRC-32 is 0x") as raised:
        parse(bytes(damaged))
    assert raised.value.exit_status is ExitStatus.INTEGRITY


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (block(b"novalue\0\0"), "variable 1: expected name=value, found b'novalue'"),
        (block(b"a=1\0=2\0\0"), "variable 2: expected name=value"),
        (block(b"a=1\0a=2\0\0"), "variable 2: a is there a second time"),
        (block(b"a=" + b"x" * 58), "variable 1 has no end"),
        (block(b"a=" + b"x" * 57 + b"\0"), "no end mark"),
        (b"", "expected an environment of 131072 bytes, found 0"),
        (b"1234567", "found 7"),
    ],
)
def test_a_list_that_is_none_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(data)


@pytest.mark.parametrize(
    ("data", "redundant", "hint"),
    [
        (make(Environment({"a": "1"}, 64, 1)), False, "holds with a flag byte"),
        (make(Environment({"a": "1"}, 64)), True, "holds without a flag byte"),
        (b"\xff" * SIZE, False, "erased"),
        (bytes(SIZE), False, "erased"),
        (make(NORMAL) + bytes(0x100000 - SIZE), False, "cut the dump of the partition there"),
        (b"\1" + make(NORMAL)[1:], False, "compiled-in defaults"),
    ],
    ids=["redundant", "not redundant", "erased", "zeros", "whole partition", "damaged"],
)
def test_the_reason_of_a_wrong_crc_is_found(data: bytes, redundant: bool, hint: str) -> None:
    with pytest.raises(IntegrityError) as raised:
        parse(data, redundant=redundant, name="env.bin")
    assert hint in str(raised.value.hint)
    assert str(raised.value.place) == "env.bin"


def test_what_does_not_fit_is_refused_with_both_sizes_and_the_longest() -> None:
    fits = Environment({"a": "x" * 56}, 64)
    assert parse(make(fits)) == fits
    with pytest.raises(InputError, match="need 65 bytes, the block has 64") as raised:
        make(Environment({"a": "x" * 57}, 64))
    assert raised.value.hint == "the longest one is a"
    with pytest.raises(InputError, match="need 6 bytes, the block has 5"):
        make(Environment({}, 5))


@pytest.mark.parametrize("name", ["", "a=b", "a b", "a\0", "a\n"])
def test_a_name_that_setenv_cannot_have_is_refused(name: str) -> None:
    for act in (lambda: make(Environment({name: "1"})), lambda: edited(NORMAL, {name: "1"})):
        with pytest.raises(InputError, match="expected a variable's name"):
            act()


def test_a_value_with_a_nul_and_a_flag_that_is_no_byte_are_refused() -> None:
    with pytest.raises(InputError, match="holds a NUL"):
        make(Environment({"a": "1\0b=2"}))
    with pytest.raises(InputError, match="expected a byte, found 256"):
        make(Environment({}, 64, 256))


def test_editing_keeps_the_rest_and_its_order() -> None:
    found = edited(NORMAL, {"bootdelay": "3", "new": "x=y"}, ["empty"])
    assert list(found.variables.items()) == [("bootargs", BOOTARGS), ("bootdelay", "3"), ("new", "x=y")]
    assert parse(make(found)) == found
    with pytest.raises(InputError, match="no variable nothing to remove") as raised:
        edited(NORMAL, {}, ["nothing"])
    assert raised.value.hint == "there are bootargs, bootdelay, empty"


@pytest.mark.parametrize(
    ("first", "second", "taken"), [(1, 0, 1), (0, 1, 2), (3, 3, 1), (255, 0, 2), (0, 255, 1), (254, 255, 2)]
)
def test_of_two_copies_the_newer_counts(first: int, second: int, taken: int) -> None:
    copies = [Environment({"copy": str(n)}, 64, flag) for n, flag in ((1, first), (2, second))]
    assert newer(*copies).variables["copy"] == str(taken)
    with pytest.raises(InputError, match="without a flag byte"):
        newer(copies[0], NORMAL)
