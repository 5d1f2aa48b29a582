"""A package reaches a simulated board over a pty whole, and every fault ends in one clear error."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages import BLOCK, FILES, IMAGES, NOISE, PROJECT, RAW_ROOTFS, TABLE, headed, made, packed

from boardwright.console.errors import ConsoleLost
from boardwright.console.transport import Port, SerialPort
from boardwright.errors import BoardwrightError, ExitStatus, InputError
from boardwright.vendor.axdl import Done, Patience, connect, download
from boardwright.vendor.axdl_frame import (
    BrokenFrame,
    Command,
    Decoder,
    Frame,
    NoAnswer,
    Refused,
    Reply,
    WrongStage,
    checksum,
    encode,
    word_sum,
)
from boardwright.vendor.axdl_job import bootargs_table, prepare, table_record
from boardwright.vendor.axdl_simulator import BOOTARGS, Faults, SimulatedBoard, Vanished, serve
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind, Partition, Project, Table, Unit

SHORT = Patience(handshake=0.4, again=0.05, answer=0.4, flash=0.4)
"""For tests in which something does not come."""


class DirectPort:
    """A cable without delay, so that a test waits for nothing but what does not come."""

    def __init__(self, board: SimulatedBoard, largest_read: int = 65536) -> None:
        self.board, self.gone = board, False
        self._waiting = b""
        self._largest = largest_read

    def read(self, seconds: float) -> bytes:
        self._check()
        if not self._waiting:
            threading.Event().wait(min(seconds, 0.02))
        data, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
        return data

    def write(self, data: bytes) -> None:
        self._check()
        try:
            self._waiting += self.board.feed(data)
        except Vanished:
            self.gone = True

    def close(self) -> None: ...

    def _check(self) -> None:
        if self.gone:
            raise ConsoleLost("the serial port went away")


@contextlib.contextmanager
def on_pty(board: SimulatedBoard) -> Iterator[Port]:
    ours, theirs = pty.openpty()

    def run() -> None:
        with contextlib.suppress(OSError):
            serve(board, ours, 60)
            os.close(ours)

    port = SerialPort(os.ttyname(theirs))
    os.close(theirs)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        port.close()
        thread.join()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    with Package(made(tmp_path_factory.mktemp("axdl"))) as opened:
        yield opened


def told(board: SimulatedBoard, package: Package, **options: object) -> Done:
    return download(DirectPort(board), package, patience=SHORT, **options)  # type: ignore[arg-type]


def expect_written(board: SimulatedBoard) -> None:
    assert board.ram == {0x14000000: FILES["fdl2_signed.bin"]}
    assert board.partitions == {
        "uboot": FILES["u-boot_signed.bin"],
        "dtb": FILES["box.dtb"],
        "rootfs": RAW_ROOTFS,
    }


@pytest.mark.parametrize(
    "frame",
    [
        # Frames that axdl-rs (axdl/src/frame.rs, its tests) recorded from a board or computed.
        ("9f8e6d5c00000100feff", Frame(1)),
        ("9f8e6d5c080001000000000300680100f594"[:36], Frame(1, bytes.fromhex("0000000300680100"))),
        ("9f8e6d5c10008100726f6d636f64652076312e303b726177795c", Frame(0x81, b"romcode v1.0;raw")),
    ],
    ids=["start", "start at an address", "the ROM's greeting"],
)
def test_frames_are_those_of_a_board(frame: tuple[str, Frame]) -> None:
    raw, wanted = bytes.fromhex(frame[0]), frame[1]
    assert encode(wanted) == raw
    decoder = Decoder()
    decoder.feed(raw)
    assert decoder.take() == wanted


@given(
    frames=st.lists(st.builds(Frame, st.integers(0, 0xFFFF), st.binary(max_size=300)), max_size=5),
    noise=st.binary(max_size=9).filter(lambda n: b"\x9f" not in n),
    cut=st.integers(1, 50),
)
def test_frames_come_out_of_noise_and_pieces(frames: list[Frame], noise: bytes, cut: int) -> None:
    line = b"".join(noise + encode(frame) for frame in frames) + noise
    decoder, found = Decoder(), []
    for at in range(0, len(line), cut):
        decoder.feed(line[at : at + cut])
        while (frame := decoder.take()) is not None:
            found.append(frame)
    assert found == frames


@given(frame=st.builds(Frame, st.integers(0, 0xFFFF), st.binary(max_size=64)), bit=st.integers(0, 10**6))
def test_a_flipped_bit_never_makes_another_frame(frame: Frame, bit: int) -> None:
    raw = bytearray(encode(frame))
    raw[bit // 8 % len(raw)] ^= 1 << bit % 8
    decoder = Decoder()
    decoder.feed(bytes(raw))
    with contextlib.suppress(BrokenFrame):
        assert decoder.take() is None


def test_sums_are_those_of_the_sources() -> None:
    assert checksum(b"") == 0xFFFF
    assert checksum(b"\xff\xff\x01\x00") == 0xFFFE  # the carry comes back in
    assert word_sum(b"\1\0\0\0\xff\xff\xff\xff\7\7") == 14


def test_a_frame_that_says_it_is_huge_is_no_frame() -> None:
    decoder = Decoder()
    decoder.feed(struct.pack("<I2H", 0x5C6D8E9F, 51201, 0x80))
    with pytest.raises(BrokenFrame, match="says that it holds 51201 bytes, 51200 are possible"):
        decoder.take()
    with pytest.raises(ValueError, match="a frame holds 51200 bytes"):
        encode(Frame(1, bytes(51201)))


def test_a_package_reaches_the_board_over_a_pty(package: Package) -> None:
    board, told_of = SimulatedBoard(), {}
    with on_pty(board) as port:
        done = download(
            port, package, progress=lambda phase: lambda at, total: told_of.update({phase: (at, total)})
        )
    expect_written(board)
    assert board.bootargs == f"{BOOTARGS}1536K(uboot),1024K(env),1024K(dtb),8192K(rootfs),53760K(opt)"
    assert (done.images, done.again, done.table_sent) == (("UBOOT", "DTB", "ROOTFS"), 0, True)
    assert done.sent == sum(len(FILES[image.file]) for image in IMAGES[4:] if image.file)
    assert {phase: at == total for phase, (at, total) in told_of.items()} == {
        "loading FDL": True,
        "writing UBOOT": True,
        "writing DTB": True,
        "writing ROOTFS": True,
    }


def test_a_board_with_two_loaders_is_served(tmp_path: Path) -> None:
    loaders = (
        Image("FDL1", Kind.FDL1, "fdl2_signed.bin", base=0x3000000),
        Image("FDL2", Kind.FDL2, "eip.bin", base=0x1_5C00_0000),
    )
    project = replace(PROJECT, images=(*loaders, *IMAGES[4:]), fdl_level=2)
    board = SimulatedBoard(levels=2)
    with Package(made(tmp_path, project)) as package:
        told(board, package)
    assert board.ram == {0x3000000: FILES["fdl2_signed.bin"], 0x1_5C00_0000: FILES["eip.bin"]}
    assert board.partitions["rootfs"] == RAW_ROOTFS


def test_one_image_is_written_without_touching_the_table(package: Package) -> None:
    board = SimulatedBoard()
    done = told(board, package, only=["DTB"])
    assert board.partitions == {"dtb": FILES["box.dtb"]}
    assert Command.REPARTITION not in board.commands
    assert (board.bootargs, done.images, done.table_sent) == ("", ("DTB",), False)
    board = SimulatedBoard()
    assert told(board, package, only=["DTB"], table=True).table_sent
    assert board.bootargs


@pytest.mark.parametrize("largest", [1, 3, 64])
def test_answers_may_come_in_pieces_and_among_noise(package: Package, largest: int) -> None:
    board = SimulatedBoard(Faults(noise=b"VECFCFECFCF\x9f\x8e", deaf=2))
    download(DirectPort(board, largest), package, patience=SHORT)
    expect_written(board)


def test_a_second_answer_to_the_calls_is_passed_over(package: Package) -> None:
    class Twice(SimulatedBoard):
        def _handshake(self) -> bytes | None:
            answer = super()._handshake()
            return answer * 2 if answer else answer

    board = Twice()
    told(board, package)
    expect_written(board)


def test_a_changed_block_of_a_plain_image_is_sent_again(package: Package) -> None:
    first_block_of_uboot = 6  # after the loader's
    board = SimulatedBoard(Faults(flip_blocks=frozenset({first_block_of_uboot + 1})))
    assert told(board, package).again == 1
    expect_written(board)


def test_a_plain_image_whose_blocks_always_change_is_given_up(package: Package) -> None:
    board = SimulatedBoard(Faults(flip_blocks=frozenset(range(6, 99))))
    with pytest.raises(BoardwrightError, match="writing UBOOT: blocks came to the board changed, 3 times"):
        told(board, package)
    assert board.partitions == {}


def test_a_changed_block_of_a_sparse_image_is_an_error(package: Package) -> None:
    board = SimulatedBoard(Faults(flip_blocks=frozenset({7})))
    words = r"writing ROOTFS, byte 48000 of .* a sparse image cannot be begun again"
    with pytest.raises(BoardwrightError, match=words) as raised:
        told(board, package, only=["ROOTFS"])
    assert "half written" in str(raised.value.hint)
    assert raised.value.exit_status is ExitStatus.HOST


def replies(package: Package) -> int:
    board = SimulatedBoard()
    told(board, package)
    return board._replies


def test_every_lost_reply_is_no_answer(package: Package) -> None:
    """All of them: nothing hangs, nothing is taken for done."""
    for number in range(1, replies(package)):
        board = SimulatedBoard(Faults(lose_reply=number))
        with pytest.raises(NoAnswer, match=r"no answer in|does not greet") as raised:
            told_fast(board, package)
        assert "tap RST" in str(raised.value.hint)


FAST = Patience(handshake=0.02, again=0.02, answer=0.02, flash=0.02)


def told_fast(board: SimulatedBoard, package: Package) -> None:
    download(DirectPort(board), package, patience=FAST)


def test_every_spoiled_reply_is_a_broken_frame(package: Package) -> None:
    for number in range(replies(package)):
        with pytest.raises(BrokenFrame, match=r".+: a frame from the board has the checksum 0x"):
            told_fast(SimulatedBoard(Faults(spoil_reply=number)), package)


@pytest.mark.parametrize("code", [*range(0x82, 0x8B), 0x8C, 0x93, 0x99])
def test_a_refusal_is_named_wherever_it_comes(package: Package, code: int) -> None:
    chance = random.Random(code)
    for number in {3, replies(package) - 1, *(chance.randrange(3, replies(package)) for _ in range(4))}:
        board = SimulatedBoard(Faults(refuse={number: code}))
        with pytest.raises((Refused, WrongStage), match=f"{code:#x}") as raised:
            told_fast(board, package)
        assert raised.value.hint


def test_a_refused_signature_says_what_it_means(package: Package) -> None:
    board = SimulatedBoard(Faults(refuse={replies(package) - 1: Reply.SIGNATURE}))
    with pytest.raises(
        Refused, match=r"finishing ROOTFS: expected ACK, the board answered signature \(0x88\)"
    ) as e:
        told(board, package)
    assert "signed images only" in str(e.value.hint)
    assert e.value.exit_status is ExitStatus.PRODUCT


def test_a_board_that_vanishes_at_any_byte_is_an_error_that_says_where(package: Package) -> None:
    whole = SimulatedBoard()
    told(whole, package)
    places = set()
    for after in [*range(0, 200, 13), *range(200, whole._received, 9973)]:
        with pytest.raises(
            BoardwrightError, match="the board went away: the serial port went away"
        ) as raised:
            told_fast(SimulatedBoard(Faults(vanish_after=after)), package)
        assert raised.value.exit_status is ExitStatus.HOST
        places.add(raised.value.message.split(":")[0].split(",")[0])
    assert {"the handshake", "loading FDL", "writing UBOOT", "writing ROOTFS"} <= places


def test_a_board_that_vanishes_on_a_pty_is_an_error(package: Package) -> None:
    board = SimulatedBoard(Faults(vanish_after=60_000))
    words = r"writing UBOOT.*(went away|no answer)"
    with on_pty(board) as port, pytest.raises(BoardwrightError, match=words):
        download(port, package, patience=replace(SHORT, answer=5, flash=5))


def test_a_lost_byte_of_a_block_is_no_answer_and_says_where(package: Package) -> None:
    with pytest.raises(NoAnswer, match=r"writing UBOOT, byte 48000 of 100000: no answer in 0\.4 s"):
        told(SimulatedBoard(Faults(short_block=7)), package)


def test_a_silent_port_names_the_buttons(package: Package) -> None:
    board = SimulatedBoard(Faults(deaf=10**6))
    with pytest.raises(NoAnswer, match=r"no answer from the board's ROM in 0\.4 s") as raised:
        told(board, package)
    assert "hold BOOT" in str(raised.value.hint)
    assert board.commands == []


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        ({"ROM": b"fdl2 v1.0;raw"}, "the handshake: expected 'romcode', .* 'fdl2 v1.0;raw'"),
        ({"FDL2": b"romcode v1.0;raw"}, "starting FDL: expected 'fdl2', .* 'romcode v1.0;raw'"),
        ({"ROM": b"\xff\xfe"}, "expected 'romcode'"),
    ],
)
def test_another_stage_than_expected_is_named(
    package: Package, greeting: dict[str, bytes], words: str
) -> None:
    with pytest.raises(WrongStage, match=words):
        told(SimulatedBoard(Faults(greeting=greeting)), package)


def test_the_table_is_laid_out_as_the_loader_reads_it() -> None:
    record = table_record(replace(TABLE, partitions=(*TABLE.partitions[:-1], Partition("opt", None, 7))))
    assert record[:8] == b"par:" + bytes([1, 2]) + struct.pack("<H", 5)
    assert len(record) == 8 + 5 * 0x58
    last = record[-0x58:]
    assert last[:8] == "opt".encode("utf-16-le") + b"\0\0"
    assert struct.unpack_from("<QQ", last, 72) == (0xFFFFFFFF, 7)
    assert bootargs_table(replace(TABLE, unit=Unit.KIB_512)).startswith("786432K(uboot),")


@pytest.mark.parametrize("unit", [Unit.BYTE, Unit.SECTOR])
def test_a_unit_that_the_loader_cannot_write_is_refused(unit: Unit) -> None:
    with pytest.raises(InputError, match="writes no bootargs for a table in"):
        table_record(replace(TABLE, unit=unit))


def test_a_table_beyond_the_loaders_bootargs_is_refused() -> None:
    def table(length: int) -> Table:
        parts = [Partition("p" * 28, 100) for _ in range(7)]
        return Table((*parts, Partition("q" * length, 1)))

    assert len(bootargs_table(table(20))) + 239 + 2 <= 512
    fits = next(n for n in range(31, 0, -1) if len(bootargs_table(table(n))) + 239 + 2 <= 512)
    table_record(table(fits))
    with pytest.raises(InputError, match="272 characters of bootargs, the loader has room for 271"):
        table_record(table(fits + 1))


CODE = IMAGES[4:]


@pytest.mark.parametrize(
    ("project", "files", "words"),
    [
        (PROJECT, {"u-boot_signed.bin": bytes(1536 * 1024 + 1)}, "does not fit uboot of 1572864"),
        (PROJECT, {"u-boot_signed.bin": b""}, "UBOOT: expected a file with bytes, found u-boot_signed.bin"),
        (PROJECT, {"u-boot_signed.bin": packed(bytes(BLOCK))}, "takes no sparse image for uboot"),
        (PROJECT, {"fdl2_signed.bin": b""}, "FDL: expected a file with bytes"),
        (PROJECT, {"box.dtb": headed(b"x")[:-1]}, "expected a payload of 1 bytes"),
        (replace(PROJECT, images=(replace(IMAGES[2], file=None, flag=0), *CODE)), {}, "found none"),
        (replace(PROJECT, images=(replace(IMAGES[2], base=2**32), *CODE)), {}, "an address below 4 GiB"),
        (replace(PROJECT, images=(replace(IMAGES[2], block="env"), *CODE)), {}, "an address below 4 GiB"),
        (replace(PROJECT, images=IMAGES[:3]), {}, "there is no image to write"),
        (replace(PROJECT, table=replace(TABLE, unit=Unit.BYTE)), {}, "writes no bootargs"),
    ],
)
def test_what_cannot_end_well_is_not_begun(
    tmp_path: Path, project: Project, files: dict[str, bytes], words: str
) -> None:
    board = SimulatedBoard()
    with Package(made(tmp_path, project, files)) as package, pytest.raises(BoardwrightError, match=words):
        told(board, package)
    assert board._received == 0


def test_only_what_is_sent_is_read_first(tmp_path: Path) -> None:
    path = made(tmp_path, files={"u-boot_signed.bin": bytes(1600 * 1024)})
    with Package(path) as package:
        assert prepare(package, only=["DTB"]).images[0].name == "DTB"
        with pytest.raises(InputError, match=r"u-boot_signed\.bin: .*does not fit uboot"):
            prepare(package, only=["DTB", "UBOOT"])


def test_a_word_says_which_cable(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    port = connect(os.ttyname(theirs))
    assert isinstance(port, SerialPort)
    port.close()
    os.close(ours)
    os.close(theirs)
    with pytest.raises(ConsoleLost, match="expected a serial port at /dev/none"):
        connect("/dev/none")
    monkeypatch.setattr("boardwright.vendor.axdl_usb.UsbPort", lambda wait: ("usb", wait))
    assert connect(wait=3.0) == ("usb", 3.0)


def test_an_unknown_image_is_named(package: Package) -> None:
    with pytest.raises(InputError, match="no image KERNEL to write") as raised:
        prepare(package, only=["KERNEL", "DTB"])
    assert raised.value.hint == "there are UBOOT, DTB, ROOTFS"


def test_a_table_that_is_not_to_be_set_is_not_sent(tmp_path: Path) -> None:
    project = replace(PROJECT, table=replace(TABLE, strategy=0))
    with Package(made(tmp_path, project)) as package:
        assert prepare(package).table is None
        assert prepare(package, table=True).table is None


def test_a_larger_image_than_the_boards_own_table_is_refused_by_it(package: Package) -> None:
    board = SimulatedBoard()
    board.sizes["uboot"] = 1000
    with pytest.raises(Refused, match=r"writing UBOOT: expected ACK, the board answered size \(0x8a\)"):
        told(board, package, only=["UBOOT"])


def test_memory_does_not_grow_with_the_image(tmp_path: Path) -> None:
    import tracemalloc

    class Forgetful(SimulatedBoard):
        """Neither adds up nor keeps what it gets."""

        def _block(self) -> bytes:
            self._sum = None
            answer = super()._block()
            if self._in_flash:
                self._size -= len(self._image)
                self._image = b""
            return answer

    big = NOISE.randbytes(2**16) * 16 * 6
    table = replace(TABLE, partitions=(Partition("uboot", 8 * 1024), *TABLE.partitions[1:]))
    path = made(tmp_path, replace(PROJECT, table=table), {"u-boot_signed.bin": big})
    del big
    with Package(path) as package:
        job = prepare(package, only=["UBOOT"])
        tracemalloc.start()
        download(DirectPort(Forgetful()), package, only=["UBOOT"], patience=SHORT)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert job.images[0].name == "UBOOT"
    assert peak < 5 * 2**20
