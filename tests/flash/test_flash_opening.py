"""The one file that is opened for writing is the one that was confirmed; and the verb around it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board_shell import loop_disk
from fake_sysfs import MIB, Host
from flash_images import KIB, content, holds, make

from boardwright.errors import HostError, InputError
from boardwright.flash import devices, medium, run
from boardwright.flash.journal import Journal
from boardwright.flash.medium import Probe
from boardwright.flash.source import find

PROJECT = Path(__file__).parents[2]
IMAGE = content()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path / "host")
    made.disk("mmcblk0", "179:0", device__serial="0x1a2b3c4d", device__type="SD")
    return made


def confirmed(host: Host) -> devices.Device:
    return devices.found(host.root)[0]


def card(tmp_path: Path) -> Path:
    path = tmp_path / "card"
    path.write_bytes(b"\xaa" * (64 * MIB))
    return path


def same(_: int) -> Probe:
    return Probe("179:0", 64 * MIB, "7")


def test_the_disk_that_was_confirmed_is_written(host: Host, tmp_path: Path) -> None:
    path = card(tmp_path)
    opened = medium.open_device(confirmed(host), host.root, path, same)
    try:
        image = find(make(tmp_path, IMAGE))
        run.flash(image, opened, Journal(tmp_path / "x.json", "x"), marks=True)
    finally:
        opened.close()
    written = path.read_bytes()
    assert holds(written, IMAGE)
    assert written[-MIB:] == bytes(MIB)
    assert written[4 * MIB : -MIB] == b"\xaa" * (59 * MIB)


def swapped(host: Host, file: str, text: str) -> None:
    (host.root / "sys/block/mmcblk0" / file).write_text(text + "\n")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("device/serial", "0x99999999", "expected serial number 0x1a2b3c4d, found 0x99999999"),
        ("diskseq", "8", "expected identity"),
        ("size", str(32 * MIB // 512), "expected identity"),
        ("dev", "179:8", "expected identity"),
        ("ro", "1", "came into use: it is read-only"),
    ],
)
def test_another_card_between_confirm_and_open(
    host: Host, tmp_path: Path, file: str, text: str, said: str
) -> None:
    path, device = card(tmp_path), confirmed(host)
    swapped(host, file, text)
    with pytest.raises(InputError, match=f"{said}.*; nothing was written"):
        medium.open_device(device, host.root, path, same)
    assert path.read_bytes() == b"\xaa" * (64 * MIB)


@pytest.mark.parametrize(
    "probe",
    [Probe("179:8", 64 * MIB, "7"), Probe("179:0", 32 * MIB, "7"), Probe("179:0", 64 * MIB, "8")],
    ids=["number", "size", "diskseq"],
)
def test_what_was_opened_is_another_disk(host: Host, tmp_path: Path, probe: Probe) -> None:
    """The list may be old by then; the descriptor tells of the disk that would be written."""
    path = card(tmp_path)
    with pytest.raises(InputError, match="is another disk than the one confirmed"):
        medium.open_device(confirmed(host), host.root, path, lambda _: probe)
    assert path.read_bytes() == b"\xaa" * (64 * MIB)


def test_a_card_that_was_pulled_out_after_it_was_confirmed(host: Host, tmp_path: Path) -> None:
    device = confirmed(host)
    with pytest.raises(HostError, match="cannot be opened for writing: No such file"):
        medium.open_device(device, host.root, tmp_path / "gone", same)
    (host.root / "sys/block/mmcblk0/size").write_text("0\n")
    with pytest.raises(InputError, match="expected serial number 0x1a2b3c4d, found none"):
        medium.open_device(device, host.root, card(tmp_path), same)


def test_no_link_is_followed(host: Host, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(card(tmp_path))
    with pytest.raises(HostError, match="cannot be opened for writing"):
        medium.open_device(confirmed(host), host.root, link, same)
    with pytest.raises(HostError, match="cannot be opened for writing"):
        medium.open_file(link, MIB)


def test_a_file_is_flashed_by_one_run_at_a_time(tmp_path: Path) -> None:
    first = medium.open_file(tmp_path / "x", MIB)
    with pytest.raises(InputError, match="is being flashed by another run"):
        medium.open_file(tmp_path / "x", MIB)
    first.close()
    medium.open_file(tmp_path / "x", MIB).close()


def command(*options: str, before: str = "") -> list[str]:
    """``invoke flash --json`` in a process of its own; ``before`` is run in it first."""
    program = f"""
        import sys
        sys.path.insert(0, {str(PROJECT)!r})
        {{}}
        from pathlib import Path
        from boardwright.verbs.flash import flash_image
        to, image, yes = sys.argv[1:4]
        sys.exit(flash_image(Path({str(PROJECT)!r}), "", "", to, image, yes == "yes", False, True))
    """
    text = textwrap.dedent(program).format(textwrap.dedent(before))
    return [sys.executable, "-c", text, *options]


def flash(tmp_path: Path, *options: str, before: str = "") -> tuple[int, Any]:
    done = subprocess.run(
        command(*options, before=before),
        env={**os.environ, "BOARDWRIGHT_CACHE": str(tmp_path / "cache")},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


WATCH = """
import os
def watch(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        os.write(9, f"{args[0]}\\n".encode())
    if event in ("os.rename", "os.remove", "os.truncate", "subprocess.Popen", "os.posix_spawn"):
        os.write(9, f"{event} {args[0]}\\n".encode())
os.dup2(os.open(LOG, os.O_WRONLY | os.O_CREAT), 9)
sys.addaudithook(watch)
"""


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_nothing_but_the_chosen_file_and_our_own_record_is_opened_for_writing(
    tmp_path: Path, suffix: str
) -> None:
    image, target, log = make(tmp_path, IMAGE, suffix), tmp_path / "card", tmp_path / "log"
    watch = WATCH.replace("LOG", repr(str(log)))
    status, report = flash(tmp_path, str(target), str(image), "no", before=watch)
    assert (status, report["outcome"]) == (0, "written")
    assert holds(target.read_bytes(), IMAGE)
    seen = log.read_text().splitlines()
    assert seen.count(str(target)) == 1
    opened = {line for line in seen if line.startswith("/") and "__pycache__" not in line}
    records = tmp_path / "cache/flash"
    assert {Path(path).parent for path in opened - {str(target), os.devnull}} == {records}
    programs = {line for line in seen if line.startswith("subprocess.Popen")}
    assert programs == ({"subprocess.Popen xz"} if suffix else set())


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_the_kernel_saw_nothing_but_the_chosen_disk_opened_for_writing(tmp_path: Path, suffix: str) -> None:
    """The unpacking program is watched too."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    image, log = make(tmp_path, IMAGE, suffix), tmp_path / "log"
    watch = ["strace", "-f", "-qq", "-s", "4096", "-e", "trace=open,openat,openat2,creat", "-o", str(log)]
    if subprocess.run([*watch, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no process may be traced here")
    variables = {"BOARDWRIGHT_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    with loop_disk(tmp_path / "backing", 8 * MIB) as disk, typed(f"{disk.name}\n") as terminal:
        done = subprocess.run(
            [*watch, *command(str(disk), str(image), "no")],
            env={**os.environ, **variables},
            stdin=terminal, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert holds((tmp_path / "backing").read_bytes(), IMAGE)
    lines = [
        line for line in log.read_text().splitlines() if re.search("O_WRONLY|O_RDWR|O_CREAT|creat", line)
    ]
    paths = [Path(found[1]) for line in lines if (found := re.search(r'"([^"]+)".* = \d', line))]
    assert paths.count(disk) == 1
    rest = {path.parent for path in paths if path not in (disk, Path(os.devnull))}
    assert rest == {tmp_path / "cache/flash"}


@contextlib.contextmanager
def typed(answer: str) -> Iterator[int]:
    """A terminal at which somebody typed."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(("answer", "status"), [("card\n", 0), ("yes\n", 2), ("\x04", 2)])
def test_at_a_terminal_what_is_lost_is_shown_and_its_name_typed(
    tmp_path: Path, answer: str, status: int
) -> None:
    image, target = make(tmp_path, IMAGE), tmp_path / "card"
    target.write_bytes(b"mine")
    with typed(answer) as terminal:
        done = subprocess.run(
            command(str(target), str(image), "no"),
            env={**os.environ, "BOARDWRIGHT_CACHE": str(tmp_path / "cache")},
            stdin=terminal, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["status"]) == (status, status), done.stderr
    assert f"{target} will be overwritten with" in done.stderr
    assert "Type its name, card, to go on: " in done.stderr
    assert holds(target.read_bytes(), IMAGE) if status == 0 else target.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("done", "seconds", "said"),
    [
        (310_000_000, 15.5, "writing: 310 of 620 MB, 20.0 MB/s, 15.5 s left"),
        (0, 1.0, "writing: 0 of 620 MB, 0.0 MB/s"),
        (620_000_000, 31.0, "writing: 620 of 620 MB, 20.0 MB/s"),
    ],
)
def test_progress_tells_rate_and_time_left(done: int, seconds: float, said: str) -> None:
    from boardwright.flash.progress import line

    assert line("writing", done, 620_000_000, seconds) == said


def test_a_board_whose_emmc_has_no_table_has_no_disk_image(capsys: pytest.CaptureFixture[str]) -> None:
    from boardwright.verbs.flash import flash_image

    assert flash_image(PROJECT, "maix-iv", "", "/nowhere", "", True, False, True) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["outcome"], report["error"].split(":")[0]) == ("refused", "maix-iv has no disk image")
    assert "--to axdl:" in report["hint"]


def test_refusals_have_a_status_and_are_json(tmp_path: Path) -> None:
    image, target = make(tmp_path, IMAGE), tmp_path / "card"
    target.write_bytes(b"mine")
    for to, yes, said in (
        (str(target), "no", "nobody is there to confirm"),
        (str(image), "yes", "is the image itself"),
        ("sd", "yes", "local.yaml does not say which device"),
        ("/dev/null", "yes", "which is neither"),
    ):
        status, report = flash(tmp_path, to, str(image), yes)
        assert (status, report["status"], report["outcome"]) == (2, 2, "refused")
        assert said in report["error"]
    assert target.read_bytes() == b"mine"
    spoilt = bytearray(IMAGE)
    spoilt[1600 * KIB] ^= 1
    image.write_bytes(spoilt)
    status, report = flash(tmp_path, str(target), str(image), "yes")
    assert (status, report["status"], report["outcome"]) == (4, 4, "failed")
    assert "is damaged between bytes" in report["error"]


def test_progress_that_nobody_reads_leaves_no_card_half_written(tmp_path: Path) -> None:
    from boardwright.flash.progress import Progress

    reading, writing = os.pipe()
    os.close(reading)
    opened = medium.open_file(tmp_path / "card", len(IMAGE))
    with open(writing, "w", closefd=True) as nobody:  # noqa: PTH123
        progress = Progress(nobody)
        progress.every = 0.0
        try:
            run.flash(find(make(tmp_path, IMAGE)), opened, Journal(tmp_path / "x.json", "x"), progress)
        finally:
            opened.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # for what is left in its buffer
    assert holds((tmp_path / "card").read_bytes(), IMAGE)


SLOW = """
import boardwright.flash.medium as medium
from boardwright.cli import _listen
import time
_listen()
real = medium.Opened.write
def write(self, offset, data):
    real(self, offset, data)
    if offset == {at}:
        print("writing", file=sys.stderr, flush=True)
        time.sleep(60)
medium.Opened.write = write
import boardwright.flash.write
boardwright.flash.write._KEEP, boardwright.flash.write._KEEP_SECONDS = 65536, 0.0
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_at_once_and_the_next_run_goes_on(tmp_path: Path, number: int) -> None:
    image, target = make(tmp_path, IMAGE, ".xz"), tmp_path / "card"
    process = subprocess.Popen(
        command(str(target), str(image), "yes", before=SLOW.format(at=2304 * KIB)),
        env={**os.environ, "BOARDWRIGHT_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        assert "writing\n" in process.stderr
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["outcome"]) == (130, "interrupted")
    assert target.read_bytes()[:4096] == bytes(4096)
    status, report = flash(tmp_path, str(target), str(image), "yes")
    assert (status, report["outcome"], report["resumed"]) == (0, "written", True)
    assert holds(target.read_bytes(), IMAGE)


def test_the_list_names_every_disk_and_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    from boardwright.verbs.flash import flash_image

    assert flash_image(PROJECT, "", "", "", "", False, True, True) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [
        device.name for device in devices.found()
    ]
