"""A package goes apart and together without loss; a hostile one is refused before it costs anything."""

from __future__ import annotations

import io
import os
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import BLOCK, FILES, IMAGES, PROJECT, headed, made, packed, stored

from boardwright.errors import BoardwrightError, HostError, InputError, IntegrityError
from boardwright.vendor import axera_package, axera_xml, sparse
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind

XML = axera_xml.write(PROJECT)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def archive(path: Path, change: Callable[[zipfile.ZipFile], None], without: str = "") -> Path:
    """A package by zipfile itself, so that it can be wrong; ``change`` adds what is wrong."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in {"box.xml": XML, **FILES}.items():
            if name != without:
                out.writestr(name, data)
        change(out)
    return path


def test_a_package_lists_its_members_and_its_index(tmp_path: Path) -> None:
    with Package(made(tmp_path)) as package:
        assert package.project == PROJECT
        assert [member.name for member in package.members] == ["AX650X_test.xml", *FILES]
        assert {m.name: m.size for m in package.members if m.name in FILES} == {
            name: len(data) for name, data in FILES.items()
        }


def test_it_goes_apart_and_together_to_the_same_bytes(tmp_path: Path) -> None:
    first = made(tmp_path)
    with Package(first) as package:
        paths = package.extract(tmp_path / "apart")
    assert {path.name: path.read_bytes() for path in paths if path.name in FILES} == FILES
    xml = (tmp_path / "apart/AX650X_test.xml").read_bytes()
    again = tmp_path / "again.axp"
    files = {path.name: path for path in (tmp_path / "apart").iterdir()}
    axera_package.make_raw(again, xml, files)
    assert again.read_bytes() == first.read_bytes()
    assert names(tmp_path) == ["again.axp", "apart", "box.axp", "files"]


def test_no_time_owner_mode_or_path_of_the_host_gets_in(tmp_path: Path) -> None:
    first = made(tmp_path)
    for path in (tmp_path / "files").iterdir():
        os.utime(path, (1, 1))
        path.chmod(0o400)
    (tmp_path / "other").mkdir()
    axera_package.make(tmp_path / "other/x.axp", PROJECT, stored(tmp_path / "other/files"))
    assert (tmp_path / "other/x.axp").read_bytes() == first.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()
    with zipfile.ZipFile(first) as out:
        assert {(info.date_time, info.external_attr >> 16, info.extra) for info in out.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), stat.S_IFREG | 0o644, b"")
        }


def test_stored_members_do_for_those_who_compare_across_hosts(tmp_path: Path) -> None:
    axera_package.make(tmp_path / "x.axp", PROJECT, stored(tmp_path / "files"), compress=False)
    with Package(tmp_path / "x.axp") as package:
        assert all(member.size == member.compressed for member in package.members)


@settings(max_examples=20)
@given(contents=st.dictionaries(st.sampled_from(sorted(FILES)), st.binary(max_size=5000)))
def test_any_contents_survive(tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]) -> None:
    with Package(made(tmp_path_factory.mktemp("any"), files=contents)) as package:
        assert {name: package.read(name, 2**20) for name in FILES} == FILES | contents


def test_verification_reads_everything_and_says_what_fits(tmp_path: Path) -> None:
    with Package(made(tmp_path)) as package:
        findings = {finding.member: finding for finding in package.verify()}
    assert all(finding.good for finding in findings.values())
    assert set(findings) == {"AX650X_test.xml", *FILES}
    size = len(FILES["box.dtb"])
    assert findings["box.dtb"].text == f"not signed, digest matches, {size} bytes, fits dtb of 1048576"
    assert findings["rootfs_sparse.ext4"].text == f"sparse image, {64 * BLOCK} bytes, fits rootfs of 8388608"
    assert findings["eip.bin"].text == "700 bytes"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("u-boot_signed.bin", bytes(1536 * 1024 + 1), "1572865 bytes, does not fit uboot of 1572864"),
        ("rootfs_sparse.ext4", packed(bytes(8193 * 1024 + 3072)), "does not fit rootfs of 8388608"),
        ("box.dtb", headed(bytes(2**20 - 1023)), "1048577 bytes, does not fit dtb of 1048576"),
    ],
)
def test_verification_says_what_does_not_fit(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    with Package(made(tmp_path, files={name: data})) as package:
        bad = [finding for finding in package.verify() if not finding.good]
    assert [finding.member for finding in bad] == [name]
    assert words in bad[0].text


def test_verification_knows_what_the_board_cannot_take(tmp_path: Path) -> None:
    target = io.BytesIO()
    sparse.pack(io.BytesIO(bytes(BLOCK)), target, crc=True)
    with Package(made(tmp_path, files={"rootfs_sparse.ext4": target.getvalue()})) as package:
        assert ["CRC32 chunk" in f.text for f in package.verify() if not f.good] == [True]


def test_verification_tells_of_each_that_is_no_image(tmp_path: Path) -> None:
    bad = {"box.dtb": b"\xd0\x0d\xfe\xed" + bytes(2000), "rootfs_sparse.ext4": packed(bytes(BLOCK)) + b"x"}
    with Package(made(tmp_path, files=bad)) as package:
        found = {f.member: f.text for f in package.verify() if not f.good}
    assert found["box.dtb"].startswith("expected AXERA! at byte 8, found 00")
    assert found["rootfs_sparse.ext4"] == "there are bytes behind the last of 1 chunks"


def test_verification_refuses_what_is_cut(tmp_path: Path) -> None:
    cut = {"rootfs_sparse.ext4": FILES["rootfs_sparse.ext4"][:-7]}
    with (
        Package(made(tmp_path, files=cut)) as package,
        pytest.raises(IntegrityError, match="ends in the header of chunk 2") as e,
    ):
        list(package.verify())
    assert str(e.value.place).endswith("box.axp/rootfs_sparse.ext4")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil", "its path leaves the package"),
        ("a/../../evil", "its path leaves the package"),
        ("/etc/passwd", "its path leaves the package, is absolute"),
        ("a//b", "its path leaves the package"),
        ("directory/", "is a directory"),
        ("c:evil", "plain relative name"),
        ("a\\b", "plain relative name"),
        ("a\nb", "plain relative name"),
        ("a/b/c/d/e", "too long"),
        ("x" * 201, "too long"),
        ("EIP.BIN", r"member 'EIP.BIN' is there a second time \(as 'eip.bin'\)"),
        ("other.xml", "expected one XML index, found box.xml, other.xml"),
    ],
)
def test_a_member_that_must_not_be_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Package(archive(tmp_path / "x.axp", lambda out: out.writestr(name, b"x")))


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    def twice(out: zipfile.ZipFile) -> None:
        with pytest.warns(UserWarning, match="Duplicate"):
            out.writestr("eip.bin", b"another")
        out.writestr("e", b"1")

    with pytest.raises(InputError, match=r"'eip\.bin' is there a second time"):
        Package(archive(tmp_path / "x.axp", twice))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (kind | 0o777) << 16
    with pytest.raises(InputError, match="member link: expected a plain file"):
        Package(archive(tmp_path / "x.axp", lambda out: out.writestr(info, "/etc/passwd")))


def test_other_compression_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("x", b"x", zipfile.ZIP_LZMA))
    with pytest.raises(InputError, match="member x: expected it stored or deflated, found method 14"):
        Package(path)


def patched_directory(path: Path, name: str, offset: int, value: bytes) -> Path:
    """A field of a member's entry in the central directory (APPNOTE.TXT 4.3.12), changed."""
    data = bytearray(path.read_bytes())
    at = data.rindex(name.encode()) - 46
    assert data[at : at + 4] == b"PK\1\2"
    data[at + offset : at + offset + len(value)] = value
    path.write_bytes(data)
    return path


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = patched_directory(archive(tmp_path / "x.axp", lambda _: None), "eip.bin", 8, b"\1\0")
    with pytest.raises(InputError, match=r"member eip\.bin: it is encrypted"):
        Package(path)


def test_a_bomb_that_says_so_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("zeros", bytes(150 * 2**20)))
    assert path.stat().st_size < 500_000
    with pytest.raises(InputError, match="unpack to 157"):
        Package(path)


def test_a_bomb_that_lies_ends_where_it_said(tmp_path: Path) -> None:
    """100 MiB of zeros that the directory calls 1,000 bytes."""
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("zeros", bytes(100 * 2**20)))
    patched_directory(path, "zeros", 24, struct.pack("<I", 1000))
    tracemalloc.start()
    with Package(path) as package, pytest.raises(IntegrityError, match="member zeros is damaged"):
        package.extract(tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    tracemalloc.stop()
    assert names(tmp_path) == ["x.axp"]


def test_a_member_that_reaches_behind_the_file_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("last", b"x"))
    patched_directory(path, "last", 20, struct.pack("<I", 2**30))
    with pytest.raises(InputError, match="the members reach to byte 107"):
        Package(path)


def test_a_stored_member_with_two_sizes_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("s", b"xyz", zipfile.ZIP_STORED))
    patched_directory(path, "s", 24, struct.pack("<I", 4))
    with pytest.raises(InputError, match="member s: it is stored, and yet has two sizes"):
        Package(path)


def test_a_member_that_ends_before_it_said_is_damaged(tmp_path: Path) -> None:
    """Its CRC-32 holds, so only the count tells."""
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("short", b"x" * 1000))
    patched_directory(path, "short", 24, struct.pack("<I", 1100))
    with Package(path) as package, pytest.raises(IntegrityError, match="expected 1100 bytes, found 1000"):
        package.read("short", 2000)


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("late", b"x"))
    patched_directory(path, "late", 42, struct.pack("<I", 0))
    with pytest.raises(InputError, match="overlaps the one before it"):
        Package(path)


def test_a_thousand_members_are_refused(tmp_path: Path) -> None:
    def many(out: zipfile.ZipFile) -> None:
        for number in range(300):
            out.writestr(f"m{number}", b"")

    with pytest.raises(InputError, match="expected 256 members at most, found 306"):
        Package(archive(tmp_path / "x.axp", many))


def test_a_large_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    def many(out: zipfile.ZipFile) -> None:
        for number in range(3000):
            out.writestr(f"{number:0100}", b"")

    with pytest.raises(InputError, match="expected a directory of 262144 bytes at most, found 43"):
        Package(archive(tmp_path / "x.axp", many))


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("box.xml", "expected one XML index, found none"),
        ("box.dtb", "image DTB names box.dtb, which is not in the package"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, without: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Package(archive(tmp_path / "x.axp", lambda _: None, without))


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.axp"
    for data in (b"", b"hello", b"PK\3\4" + bytes(100)):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"expected a package \(ZIP\), found none"):
            Package(path)
    with pytest.raises(HostError, match="cannot be read: No such file"):
        Package(tmp_path / "nothing.axp")
    with pytest.raises(HostError, match="cannot be read: Is a directory"):
        Package(tmp_path)


@pytest.mark.parametrize("keep", [100, 50_000, -1, -30])
def test_a_cut_package_is_refused(tmp_path: Path, keep: int) -> None:
    path = made(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises((InputError, IntegrityError)):
        Package(path)


@settings(max_examples=60)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_seen_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("flipped")
    path = made(tmp_path)
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= 1 << bit
    path.write_bytes(data)
    try:
        with Package(path) as package:
            read = {name: package.read(name, 2**20) for name in FILES}
    except BoardwrightError:
        return
    assert read == FILES


def test_a_damaged_member_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    axera_package.make(tmp_path / "x.axp", PROJECT, stored(tmp_path / "files"), compress=False)
    data = bytearray((tmp_path / "x.axp").read_bytes())
    data[data.index(FILES["box.dtb"]) + 2000] ^= 1
    (tmp_path / "x.axp").write_bytes(data)
    with Package(tmp_path / "x.axp") as package:
        with pytest.raises(IntegrityError, match=r"member box\.dtb is damaged: Bad CRC-32"):
            package.extract(tmp_path / "out")
        with pytest.raises(IntegrityError, match=r"member box\.dtb is damaged: Bad CRC-32"):
            list(package.verify())
        assert package.extract(tmp_path / "one", ("eip.bin",)) == [tmp_path / "one/eip.bin"]
    assert names(tmp_path) == ["files", "one", "x.axp"]


def test_extraction_never_writes_into_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    with Package(made(tmp_path)) as package:
        for name in ("there", "link", "box.axp"):
            with pytest.raises(InputError, match="is there already"):
                package.extract(tmp_path / name)
        with pytest.raises(InputError, match="no member nothing"):
            package.extract(tmp_path / "new", ("nothing",))
        with pytest.raises(HostError, match="cannot be made"):
            package.extract(tmp_path / "box.axp/new")
    assert names(tmp_path) == ["box.axp", "files", "link", "there"]


def test_a_large_member_streams_in_small_memory(tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(2**16) * 16)
    files = stored(tmp_path / "files") | {"rootfs_sparse.ext4": big}
    tracemalloc.start()
    axera_package.make(tmp_path / "x.axp", PROJECT, files)
    with Package(tmp_path / "x.axp") as package:
        package.extract(tmp_path / "out")
        list(package.verify())
    assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    tracemalloc.stop()
    assert (tmp_path / "out/rootfs_sparse.ext4").stat().st_size == 64 * 2**20


def test_an_index_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.axp", lambda out: out.writestr("a.xml", b" " * (2**20 + 1)), "box.xml")
    with pytest.raises(InputError, match=r"a\.xml: expected 1048576 bytes at most, found 1048577"):
        Package(path)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (Image("X", Kind.CODE, "../evil", "dtb"), "member '../evil': its path leaves"),
        (Image("X", Kind.CODE, "not-there.img", "dtb"), "files that are not there: not-there.img"),
    ],
)
def test_a_package_that_would_be_refused_is_not_made(tmp_path: Path, image: Image, words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(tmp_path, replace(PROJECT, images=(*IMAGES, image)))
    assert names(tmp_path) == ["files"]


def test_a_target_that_cannot_be_written_is_a_host_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be made"):
        axera_package.make(tmp_path / "none/x.axp", PROJECT, stored(tmp_path / "files"))
