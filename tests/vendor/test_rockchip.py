"""The boot chain on a medium is recognised, its damage is seen, and other bytes are not taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.errors import ExitStatus
from boardwright.vendor import rockchip
from boardwright.vendor.rockchip import (
    FIT_SECTOR,
    IDBLOCK_SECTOR,
    SECTOR,
    SPI_FIT_OFFSET,
    SPI_IDBLOCK_OFFSET,
    LoaderFault,
    faults,
    fit,
    id_block,
    loader,
    versions,
)

DATA = Path(__file__).parent / "data"
IDBLOADER = (DATA / "idbloader-rk3588.img").read_bytes()
FIT = (DATA / "u-boot.itb").read_bytes()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def medium(first: bytes = IDBLOADER, second: bytes = FIT) -> bytes:
    """The start of a card: protective GPT aside, only the boot chain."""
    head = bytearray(rockchip.LOADER_END)
    head[IDBLOCK_SECTOR * SECTOR : IDBLOCK_SECTOR * SECTOR + len(first)] = first
    head[FIT_SECTOR * SECTOR : FIT_SECTOR * SECTOR + len(second)] = second
    return bytes(head)


def test_mkimages_id_block_names_ddr_and_spl_with_their_places() -> None:
    found = id_block(IDBLOADER)
    assert found.intact
    assert [(p.name, p.offset, p.size, p.intact) for p in found.parts] == [
        ("ddr", 2048, 2048, True),
        ("spl", 4096, 4096, True),
    ]
    assert found.size == len(IDBLOADER)


def test_mkimages_fit_names_its_images_with_their_places() -> None:
    found = fit(FIT)
    assert [(part.name, part.intact) for part in found.parts] == [("u-boot", True), ("atf-1", True)]
    u_boot = found.parts[0]
    assert b"U-Boot 2025.01-test" in FIT[u_boot.offset : u_boot.offset + u_boot.size]


def test_a_flipped_bit_in_the_header_is_seen() -> None:
    assert not id_block(flipped(IDBLOADER, 700)).intact


@given(at=st.integers(2048, len(IDBLOADER) - 1))
def test_a_flipped_bit_in_an_image_is_seen_and_named(at: int) -> None:
    intact = [part.intact for part in id_block(flipped(IDBLOADER, at)).parts]
    assert intact == [at >= 4096, at < 4096]


def test_a_cut_file_says_what_is_missing() -> None:
    with pytest.raises(LoaderFault, match="expected spl of 4096 bytes at 0x1000, found 1000 bytes") as raised:
        id_block(IDBLOADER[: 4096 + 1000])
    assert raised.value.exit_status is ExitStatus.PRODUCT
    with pytest.raises(LoaderFault, match="expected atf-1"):
        fit(FIT[:-512])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "found nothing"),
        (b"\x3b\x8c\xdc\xfc" + bytes(4096), "found 3b 8c dc fc"),
        (IDBLOADER[:100], "2048 bytes at least, found 100"),
        (IDBLOADER[:10] + b"\x09" + IDBLOADER[11:], "found 9 images"),
        (IDBLOADER[:10] + b"\x00" + IDBLOADER[11:], "found 0 images"),
        (IDBLOADER[:12] + b"\x02" + IDBLOADER[13:], "hash type 2"),
        (IDBLOADER[:8] + b"\x00\x00" + IDBLOADER[10:], "at 0"),
    ],
    ids=["empty", "header of the RK3399", "short", "nine images", "no image", "SHA-512", "no hash"],
)
def test_what_is_no_id_block_is_refused_with_what_was_found(data: bytes, found: str) -> None:
    with pytest.raises(LoaderFault, match=found):
        id_block(data)


@given(data=st.binary(max_size=400), start=st.sampled_from([b"", b"RKNS", b"\xd0\x0d\xfe\xed"]))
def test_no_bytes_cause_anything_but_a_loader_fault(data: bytes, start: bytes) -> None:
    for parse in (id_block, fit):
        with pytest.raises(LoaderFault):
            parse(start + data)


@given(at=st.integers(0, 1023), value=st.integers(0, 255))
def test_a_damaged_fit_is_read_or_refused(at: int, value: int) -> None:
    try:
        found = fit(FIT[:at] + bytes([value]) + FIT[at + 1 :])
    except LoaderFault:
        return
    assert found.parts
    assert found.size <= len(FIT)


def test_a_medium_with_both_parts_has_no_fault_and_tells_its_versions() -> None:
    found = loader(medium())
    assert faults(found) == []
    assert found.versions == rockchip.Versions(
        ddr="DDR 0123456789 standin 26/01/01-00:00:00,fwver: v0.00",
        spl="U-Boot SPL 2025.01-test (Jan 01 2026 - 00:00:00 +0000)",
        bl31="v2.12.1(release):2.12.1+dfsg-1",
        u_boot="U-Boot 2025.01-test (Jan 01 2026 - 00:00:00 +0000)",
    )


def test_spi_flash_has_other_places() -> None:
    flash = bytearray(16 * 2**20)
    flash[SPI_IDBLOCK_OFFSET : SPI_IDBLOCK_OFFSET + len(IDBLOADER)] = IDBLOADER
    flash[SPI_FIT_OFFSET : SPI_FIT_OFFSET + len(FIT)] = FIT
    found = loader(bytes(flash), id_block_at=SPI_IDBLOCK_OFFSET, fit_at=SPI_FIT_OFFSET)
    assert found.fit is not None
    assert faults(found) == []


def test_an_empty_medium_is_no_fault_because_the_spi_flash_boots_it() -> None:
    found = loader(bytes(rockchip.LOADER_END))
    assert (found.id_block, found.fit) == (None, None)
    assert faults(found) == []
    assert found.versions == rockchip.Versions(None, None, None, None)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (medium(first=b""), "expected an ID block before u-boot.itb"),
        (medium(second=b""), "expected u-boot.itb after the ID block"),
        (medium(first=flipped(IDBLOADER, 700)), "the ID block's header"),
        (medium(first=flipped(IDBLOADER, 5000)), "expected spl at 0x1000"),
        (medium(second=flipped(FIT, len(FIT) - 300)), "expected atf-1 at"),
    ],
    ids=["no ID block", "no FIT", "header", "SPL", "BL31"],
)
def test_a_chain_that_would_not_start_is_told(head: bytes, words: str) -> None:
    found = [fault.message for fault in faults(loader(head))]
    assert len(found) == 1
    assert words in found[0]


def test_a_chain_at_the_wrong_sector_is_not_there() -> None:
    found = loader(medium()[SECTOR:])
    assert (found.id_block, found.fit) == (None, None)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (b"\0U-Boot 2017.09-gabcdef (Mar 04 2024 - 11:01:41)\n\0", "u_boot", "U-Boot 2017.09-gabcdef"),
        (b"xxDDR V1.09 a930779e06 typ 22/11/21-17:50:56\n\0", "ddr", "DDR V1.09 a930779e06 typ 22/11/21"),
        (b"DDR 9fffbe1e78 cym 24/02/04-10:09:20,fwver: v1.16\0", "ddr", "DDR 9fffbe1e78 cym 24/02/04-10:09"),
        (b"DDR initialisation of some other kind\0", "ddr", None),
        (b"v2.12.1(debug):v2.12.1\0", "bl31", "v2.12.1(debug):v2.12.1"),
        (b"U-Boot SPL board init", "spl", None),
    ],
)
def test_version_strings_of_other_builds(text: bytes, name: str, expected: str | None) -> None:
    found = getattr(versions(text), name)
    assert found is None if expected is None else found.startswith(expected)


def test_a_version_string_of_the_spl_is_not_taken_for_u_boots() -> None:
    assert versions(b"U-Boot SPL 2025.01 (x)\0").u_boot is None
