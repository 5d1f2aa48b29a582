"""Rockchip's USB modes by rkdeveloptool, against a stand-in that prints and ends as the program does."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_rkdeveloptool import LOADER, Board
from flash_images import KIB, SIZE, content, found, holds, make

from boardwright.errors import HostError, InputError, IntegrityError
from boardwright.flash import rockusb, run
from boardwright.flash.journal import Journal

IMAGE = content()
ROOM = 4 * 2**20


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    made = Board(tmp_path / "usb", ROOM)
    monkeypatch.setenv("PATH", str(made.directory), prepend=":")
    monkeypatch.setattr(rockusb, "_APPEARS", 0.1)
    return made


@pytest.fixture
def loader(tmp_path: Path) -> Path:
    path = tmp_path / "rk3588_spl_loader.bin"
    path.write_bytes(LOADER + bytes(100))
    return path


def flash(tmp_path: Path, loader: Path | None) -> run.Done:
    image = found(make(tmp_path, IMAGE))
    medium = rockusb.opened(rockusb.the_board(), loader, SIZE, lambda _: None)
    try:
        return run.flash(image, medium, Journal(tmp_path / "state/x.json", "image"))
    finally:
        medium.close()


def test_in_maskrom_mode_the_loader_comes_first_and_all_is_read_back(
    board: Board, loader: Path, tmp_path: Path
) -> None:
    done = flash(tmp_path, loader)
    assert (done.rewritten, done.resumed) == (0, False)
    written = board.emmc.read_bytes()
    assert holds(written, IMAGE)
    assert written[-(2**20) :] == bytes(2**20)
    words = [call.split()[0] for call in board.calls()]
    assert words[:4] == ["ld", "rfi", "db", "rfi"]
    assert [call for call in board.calls() if call.startswith("wl")][-1] == "wl 0"
    assert "rl" in words[words.index("wl") :]


def test_in_loader_mode_there_is_no_loader_step(board: Board, tmp_path: Path) -> None:
    board.set(mode="Loader")
    flash(tmp_path, None)
    assert holds(board.emmc.read_bytes(), IMAGE)
    assert not [call for call in board.calls() if call.startswith("db")]


def test_a_loader_that_was_loaded_before_is_not_loaded_again(board: Board, tmp_path: Path) -> None:
    """Some loaders are still listed as Maskrom; what counts is whether the storage answers."""
    board.set(loaded=True)
    flash(tmp_path, None)
    assert not [call for call in board.calls() if call.startswith("db")]


@pytest.mark.parametrize(
    ("state", "error", "said", "hint"),
    [
        ({"devices": 0}, InputError, "no board in a Rockchip USB mode", "maskrom"),
        ({"devices": 2}, InputError, "expected one board, found 2: 2207:350b at 102", "unplug"),
        ({"forbidden": True}, HostError, "USB interface could not be opened", "udev rule"),
        ({"wrong_loader": True}, HostError, "the loader did not start.*bootloader failed", "this chip"),
        ({"no_storage": True}, HostError, "maskrom mode. shows no storage", "seated"),
        ({"mode": "Loader", "no_storage": True}, HostError, "loader mode. shows no storage", "give --loader"),
    ],
)
def test_what_is_wrong_before_anything_is_written(
    board: Board, loader: Path, tmp_path: Path, state: dict[str, object], error: type[Exception],
    said: str, hint: str,
) -> None:  # fmt: skip
    board.set(**state)
    with pytest.raises(error, match=said) as raised:
        flash(tmp_path, loader)
    assert hint in str(raised.value)
    assert board.emmc.read_bytes() == b"\xaa" * ROOM


@pytest.mark.usefixtures("board")
def test_maskrom_mode_without_a_loader_or_with_another_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a loader before its storage"):
        flash(tmp_path, None)
    (tmp_path / "idbloader.img").write_bytes(b"RKNS")
    with pytest.raises(InputError, match="is no Rockchip loader"):
        flash(tmp_path, tmp_path / "idbloader.img")
    with pytest.raises(InputError, match="there is no file"):
        flash(tmp_path, tmp_path / "nowhere.bin")


@pytest.mark.usefixtures("board")
def test_storage_that_is_too_small(loader: Path) -> None:
    with pytest.raises(InputError, match="too small: 4194304 bytes, the image has 4194305"):
        rockusb.opened(rockusb.the_board(), loader, ROOM + 1, lambda _: None)


@pytest.mark.usefixtures("board")
def test_another_board_than_the_declared_one() -> None:
    with pytest.raises(InputError, match="expected a board at 204, found 2207:350b at 102"):
        rockusb.the_board("204")


def test_blocks_that_the_board_does_not_write(board: Board, loader: Path, tmp_path: Path) -> None:
    board.set(broken=(2000 * KIB, 2001 * KIB))
    with pytest.raises(HostError, match="bytes 1835008 to 2097152 could not be written: the board did not"):
        flash(tmp_path, loader)
    assert board.emmc.read_bytes()[: 2**20] == bytes(2**20)
    board.set(broken=(0, 0))
    assert flash(tmp_path, loader).resumed
    assert holds(board.emmc.read_bytes(), IMAGE)


def test_a_board_that_is_unplugged_while_it_is_written(board: Board, loader: Path, tmp_path: Path) -> None:
    board.set(gone_after=6)
    with pytest.raises(HostError, match=r"the medium went away while .* \(the board is no longer on USB\)"):
        flash(tmp_path, loader)


def test_what_the_board_keeps_wrong_is_found_and_written_again(
    board: Board, loader: Path, tmp_path: Path
) -> None:
    board.set(flip=1600 * KIB, flips=1)
    assert flash(tmp_path, loader).rewritten == 1
    assert holds(board.emmc.read_bytes(), IMAGE)
    board.set(flip=1600 * KIB, flips=99)
    with pytest.raises(IntegrityError, match="twice, in 1 ranges: bytes 1572864 to 1835008"):
        flash(tmp_path, loader)


def test_no_room_for_what_is_read_back_is_no_success(board: Board, loader: Path, tmp_path: Path) -> None:
    board.set(full_disk=True)
    with pytest.raises(IntegrityError, match="reading failed: rkdeveloptool left a short file"):
        flash(tmp_path, loader)


@pytest.mark.usefixtures("board")
@pytest.mark.parametrize("magic", [b"\x3a\xff\x26\xed", b"UBI#"])
def test_blocks_that_rkdeveloptool_would_unpack_are_not_given_to_it(magic: bytes) -> None:
    medium = rockusb.Rockusb(ROOM)
    with pytest.raises(OSError, match="rkdeveloptool would unpack"):
        medium.write(0, memoryview(magic + bytes(508)))
    medium.close()


def test_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="rkdeveloptool is not installed"):
        rockusb.boards()
