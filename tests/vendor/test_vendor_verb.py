"""`invoke vendor` does what it says, writes over nothing, and ends with the documented status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packages import BLOCK, FILES, RAW_ROOTFS, made

from boardwright.errors import ExitStatus, HostError, InputError, IntegrityError
from boardwright.vendor import uboot_env
from boardwright.vendor.uboot_env import Environment
from boardwright.verbs.vendor import ACTIONS, Options, vendor

ROOT = Path(__file__).parents[2]
ENV = uboot_env.make(Environment({"bootargs": "mem=4096M root=/dev/mmcblk0p10", "bootdelay": "0"}))


def said(capsys: pytest.CaptureFixture[str], action: str, file: Path, **options: Any) -> Any:
    assert vendor(action, str(file), Options(as_json=True, **options)) == 0
    return json.loads(capsys.readouterr().out)


def test_list_tells_partitions_and_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path)
    report = said(capsys, "list", path)
    assert report["partitions"][:2] == [
        {"name": "uboot", "bytes": 1536 * 1024},
        {"name": "env", "bytes": 2**20},
    ]
    assert report["partitions"][-1] == {"name": "opt", "bytes": None}
    fdl = next(image for image in report["images"] if image["name"] == "FDL")
    assert (fdl["partition"], fdl["address"], fdl["bytes"]) == (None, 0x14000000, 5500)
    assert [member["name"] for member in report["members"]] == ["AX650X_test.xml", *FILES]
    assert vendor("list", str(path), Options()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "AX650X_test V0.0.0, index AX650X_test.xml"
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["uboot", "0x0"], ["env", "0x180000"], ["dtb", "0x280000"],
        ["rootfs", "0x380000"], ["opt", "0xb80000"],
    ]  # fmt: skip


def test_verify_ends_with_1_when_an_image_would_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = made(tmp_path)
    assert vendor("verify", str(good), Options()) == 0
    assert capsys.readouterr().out.count("ok  ") == 6
    large = made(tmp_path, files={"u-boot_signed.bin": bytes(1600 * 1024)}, name="large.axp")
    assert vendor("verify", str(large), Options()) is ExitStatus.PRODUCT
    assert "no  u-boot_signed.bin: 1638400 bytes, does not fit" in capsys.readouterr().out
    assert vendor("verify", str(large), Options(as_json=True)) is ExitStatus.PRODUCT
    assert [row["good"] for row in json.loads(capsys.readouterr().out)].count(False) == 1


def test_a_package_goes_apart_and_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, out, again = made(tmp_path), tmp_path / "out", tmp_path / "again.axp"
    assert said(capsys, "extract", first, to=str(out))["files"][0] == str(out / "AX650X_test.xml")
    said(capsys, "make", again, source=str(out))
    assert again.read_bytes() == first.read_bytes()
    said(capsys, "extract", first, to=str(tmp_path / "some"), only="eip.bin,box.dtb")
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["box.dtb", "eip.bin"]


def test_a_header_goes_on_and_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, image, back = tmp_path / "Image", tmp_path / "kernel.img", tmp_path / "back"
    raw.write_bytes(b"kernel" * 1000)
    said(capsys, "wrap", raw, to=str(image))
    report = said(capsys, "header", image)
    assert (report["payload_bytes"], report["signed"], report["digest"]) == (6000, False, "matches")
    said(capsys, "unwrap", image, to=str(back))
    assert back.read_bytes() == raw.read_bytes()
    assert vendor("header", str(image), Options()) == 0
    assert "checksum holds, payload 6000 bytes, plain, not signed" in capsys.readouterr().out


def test_an_environment_is_printed_and_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, new = tmp_path / "mmcblk0p3", tmp_path / "new"
    path.write_bytes(ENV + bytes(0xE0000))  # the whole partition
    assert vendor("env", str(path), Options()) == 0
    assert capsys.readouterr().out == "bootargs=mem=4096M root=/dev/mmcblk0p10\nbootdelay=0\n"
    put = "bootargs=mem=3072M root=/dev/mmcblk0p10"
    said(capsys, "env", path, to=str(new), put=put, drop="bootdelay")
    assert new.stat().st_size == uboot_env.SIZE
    assert said(capsys, "env", new)["variables"] == {"bootargs": put.partition("=")[2]}


def test_a_redundant_environment_is_read_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "env"
    path.write_bytes(uboot_env.make(Environment({"a": "1"}, 4096, 7)))
    report = said(capsys, "env", path, redundant=True)
    assert report == {"flag": 7, "bytes": 4096, "variables": {"a": "1"}}
    with pytest.raises(IntegrityError, match="CRC-32"):
        vendor("env", str(path), Options())


def test_a_sparse_image_is_described_unpacked_and_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, raw, again = tmp_path / "sparse", tmp_path / "raw", tmp_path / "again"
    path.write_bytes(FILES["rootfs_sparse.ext4"])
    assert said(capsys, "sparse", path) == {"bytes": 64 * BLOCK, "block": BLOCK, "chunks": 3, "ax650": []}
    said(capsys, "sparse", path, to=str(raw))
    assert raw.read_bytes() == RAW_ROOTFS
    said(capsys, "pack", raw, to=str(again))
    assert again.read_bytes() == path.read_bytes()
    said(capsys, "pack", raw, to=str(tmp_path / "skipped"), skip_zeros=True)
    assert (tmp_path / "skipped").stat().st_size == again.stat().st_size - 4
    assert vendor("sparse", str(path), Options()) == 0
    assert capsys.readouterr().out.endswith("262144 bytes in 3 chunks of 4096-byte blocks\n")


@pytest.mark.parametrize("action", [name for name, (_, takes) in ACTIONS.items() if "to!" in takes])
def test_what_is_there_is_never_written_over(tmp_path: Path, action: str) -> None:
    path, there = made(tmp_path), tmp_path / "there"
    there.write_bytes(b"mine")
    with pytest.raises(InputError, match="is there already"):
        vendor(action, str(path), Options(to=str(there)))
    assert there.read_bytes() == b"mine"


def test_make_does_not_write_over_a_package(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.read_bytes()
    (tmp_path / "files/box.xml").write_bytes(b"<x/>")
    with pytest.raises(InputError, match="is there already"):
        vendor("make", str(path), Options(source=str(tmp_path / "files")))
    assert path.read_bytes() == before


def test_nothing_half_made_is_left(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(FILES["rootfs_sparse.ext4"][:-3])
    with pytest.raises(IntegrityError):
        vendor("sparse", str(path), Options(to=str(tmp_path / "raw")))
    assert [one.name for one in tmp_path.iterdir()] == ["cut"]


@pytest.mark.parametrize(
    ("action", "options", "words"),
    [
        ("lst", {}, "no action 'lst'"),
        ("list", {"to": "x"}, "--to: `invoke vendor list` does not take it"),
        ("header", {"put": "a=1"}, "--set: `invoke vendor header` does not take it"),
        ("extract", {}, "`invoke vendor extract` needs --to"),
        ("make", {}, "`invoke vendor make` needs --from"),
        ("env", {"put": "a=1"}, "--set and --unset need --to"),
        ("env", {"put": "a", "to": "new"}, "--set: expected NAME=VALUE, found 'a'"),
        ("env", {"drop": "nothing", "to": "new"}, "no variable nothing to remove"),
    ],
)
def test_a_request_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, options: dict[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("env.bin").write_bytes(ENV)
    with pytest.raises(InputError, match=words):
        vendor(action, "env.bin", Options(**options))  # type: ignore[arg-type]


def test_make_wants_one_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected one XML index, found none"):
        vendor("make", str(tmp_path / "x.axp"), Options(source=str(tmp_path)))


@pytest.mark.parametrize("action", ["header", "wrap", "env", "sparse", "pack", "list"])
def test_a_file_that_is_not_there_is_a_host_error(tmp_path: Path, action: str) -> None:
    needed = {"to": str(tmp_path / "new")} if "to!" in ACTIONS[action][1] else {}
    with pytest.raises(HostError, match="No such file"):
        vendor(action, str(tmp_path / "nothing"), Options(**needed))  # type: ignore[arg-type]


def test_the_command_line_ends_with_4_for_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_bytes(b"\1" + ENV[1:])
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "vendor", "env", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert f"error: {path}: the environment's CRC-32 is 0x" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("action", ["list", "verify", "header", "wrap", "env", "sparse", "pack"])
def test_what_never_ends_is_not_read(tmp_path: Path, action: str) -> None:
    """A link to /dev/zero was read until the memory was full."""
    (tmp_path / "zero").symlink_to("/dev/zero")
    needed = {"to": str(tmp_path / "new")} if "to!" in ACTIONS[action][1] else {}
    with pytest.raises(InputError, match="found a device or a pipe"):
        vendor(action, str(tmp_path / "zero"), Options(**needed))  # type: ignore[arg-type]
    assert [one.name for one in tmp_path.iterdir()] == ["zero"]


@pytest.mark.parametrize(
    ("action", "data", "words"),
    [
        ("wrap", b"", "the payload is empty"),
        ("wrap", FILES["box.dtb"], "it has such a header already"),
        ("pack", bytes(BLOCK + 1), "expected a multiple of 4096 bytes, found 4097"),
        ("pack", b"", "expected an image, found an empty file"),
    ],
)
def test_what_cannot_be_made_into_an_image_is_named(
    tmp_path: Path, action: str, data: bytes, words: str
) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        vendor(action, str(path), Options(to=str(tmp_path / "new")))
    assert str(caught.value.place) == str(path)
    assert [one.name for one in tmp_path.iterdir()] == ["given"]


def test_a_directory_that_is_not_there_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(b"kernel")
    with pytest.raises(HostError, match=r"new\.img cannot be made: there is no directory .*/nowhere"):
        vendor("wrap", str(path), Options(to=str(tmp_path / "nowhere/new.img")))


def test_make_takes_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--from: expected a directory") as caught:
        vendor("make", str(tmp_path / "x.axp"), Options(source=str(made(tmp_path))))
    assert str(caught.value.place) == str(tmp_path / "box.axp")


def test_verify_tells_of_every_image_that_would_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, files={"box.dtb": bytes(5000), "u-boot_signed.bin": bytes(2_000_000)})
    assert vendor("verify", str(path), Options()) is ExitStatus.PRODUCT
    out = capsys.readouterr().out
    assert "no  u-boot_signed.bin: 2000000 bytes, does not fit" in out
    assert "no  box.dtb: expected AXERA! at byte 8" in out
