"""The image is what the layout says, the same bytes every time, or the step fails in clear words."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from imaging import EPOCH, RESOURCE, layout, made, make, rootfs, sandboxed, tools, write_inputs

from boardwright.image import bmap

MIB = 2**20


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tools()
    return write_inputs(tmp_path_factory.mktemp("image") / "in")


@pytest.fixture(scope="module")
def image(inputs: Path) -> Path:
    return made(inputs, inputs.parent / "out")


@pytest.fixture
def ask(inputs: Path, image: Path) -> Callable[[str], str]:
    """What a tool in the sandbox says about the image, which it finds as ``/out/board.img``."""

    def run(script: str) -> str:
        result = sandboxed(script, image.parent, inputs)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr

    return run


def partition(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(layout())["partitions"][number]
    return found


def digests(out: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(out.iterdir())}


# --- what is in it ------------------------------------------------------------------------------------


def test_the_partition_table_is_the_layout(ask: Callable[[str], str]) -> None:
    table = json.loads(ask("sfdisk --json /out/board.img"))["partitiontable"]
    assert table["id"].lower() == json.loads(layout())["disk-guid"]
    assert [(p["name"], p["start"], p["size"], p["attrs"]) for p in table["partitions"]] == [
        ("boot", 8192, 98304, "LegacyBIOSBootable"),
        ("root", 106496, 327680, "GUID:59"),
    ]
    assert [p["uuid"].lower() for p in table["partitions"]] == [partition(0)["guid"], partition(1)["guid"]]


def test_the_boot_partition_has_every_file_and_no_time_of_today(ask: Callable[[str], str]) -> None:
    names = ask("mdir -/ -b -i /out/board.img@@4M ::/").splitlines()
    assert {"::/Image", "::/initrd.img", "::/extlinux/extlinux.conf"} < set(names)
    assert "::/dtbs/rockchip/rk3588-board-with-a-long-name-39.dtb" in names
    listing = ask("mdir -/ -i /out/board.img@@4M ::/")
    assert partition(0)["serial"] == re.sub("-", "", listing.split("Serial Number is ")[1][:9]).lower()
    assert set(re.findall(r"\d{4}-\d\d-\d\d +\d+:\d\d", listing)) == {"2023-11-14  22:13"}


def test_the_root_has_fixed_identifiers_times_and_owners(ask: Callable[[str], str]) -> None:
    device = "'/out/board.img?offset=54525952'"
    about = ask(f"debugfs -R stats {device}")
    assert re.search(rf"Filesystem UUID: +{partition(1)['uuid']}", about)
    assert re.search(rf"Directory Hash Seed: +{partition(1)['hash-seed']}", about)
    assert "orphan_file" not in about
    assert "metadata_csum" in about
    owned = ask(f"debugfs -R 'stat /home/u/größe' {device}")
    assert re.search(r"User: +1000 +Group: +1000", owned)
    # A tarball has neither atime nor ctime, for which mke2fs takes 0; it never takes the clock.
    times = dict(re.findall(r"(\w+time): 0x([0-9a-f]{8})", owned))
    assert times["mtime"] == times["crtime"] == f"{EPOCH:08x}"
    assert {times["atime"], times["ctime"]} <= {"00000000", f"{EPOCH:08x}"}


def test_the_loader_is_in_its_hole_and_the_spare_hole_is_zero(inputs: Path, image: Path) -> None:
    loader = (inputs / "loader/idbloader.img").read_bytes()
    with image.open("rb") as file:
        file.seek(32 * 1024)
        assert file.read(MIB) == loader.ljust(MIB, b"\0")
        file.seek(2 * MIB)
        assert not any(file.read(MIB))


def test_the_image_is_sparse(image: Path) -> None:
    assert image.stat().st_size == 256 * MIB
    assert image.stat().st_blocks * 512 < 64 * MIB


# --- the same bytes ------------------------------------------------------------------------------------


def test_jobs_clock_and_umask_do_not_change_a_byte(inputs: Path, image: Path, tmp_path: Path) -> None:
    script = "umask 077; cd /in; exec faketime '2031-07-07 07:07:07' python3 -S -m sealed.image"
    again = sandboxed(script, tmp_path / "out", inputs, {"JOBS": "1"})
    assert again.returncode == 0, again.stdout + again.stderr
    assert digests(tmp_path / "out") == digests(image.parent)


def test_another_user_makes_the_same_bytes(
    inputs: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv to become another user")
    code = Path(__file__).parents[2]
    if not all(p.stat().st_mode & stat.S_IXOTH for p in [code, *code.parents]):
        pytest.skip(f"another user cannot read {code}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        work = Path(directory)
        work.chmod(0o755)
        shutil.copytree(inputs, work / "in")
        # The user's cache may be closed to others, as root's home is.
        shutil.copytree(tools(), work / "root", symlinks=True)
        monkeypatch.setenv(RESOURCE, str(work / "root"))
        made(
            work / "in", work / "out", prefix=["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
        )
        assert digests(work / "out") == digests(image.parent)


def test_compression_does_not_depend_on_jobs(image: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(image, tmp_path / "in/image")
    script = (Path(__file__).parents[2] / "boardwright/kinds/compress.sh").read_text()
    sums = set()
    for jobs in ("1", "2", "5"):
        result = sandboxed(
            script, tmp_path / f"out{jobs}", tmp_path / "in", {"JOBS": jobs, "NAME": "board.img.zst"}
        )
        assert result.returncode == 0, result.stderr
        sums.add(digests(tmp_path / f"out{jobs}")["board.img.zst"])
    assert len(sums) == 1
    back = sandboxed("zstd -dc /out/board.img.zst | sha256sum", tmp_path / "out5")
    assert back.stdout.split()[0] == hashlib.sha256(image.read_bytes()).hexdigest()


# --- the block map, and a card that was not empty -----------------------------------------------------


def test_no_byte_outside_the_map_is_other_than_zero(image: Path) -> None:
    content, position = image.read_bytes(), 0
    for start, end in _mapped(image):
        assert not any(content[position:start])
        position = end
    assert not any(content[position:])


def test_the_map_is_right_about_the_image(image: Path) -> None:
    read = bmap.read(image.with_suffix(".bmap"))
    bmap.verify_file(read, image)
    assert read.mapped_bytes < 48 * MIB


def test_blocks_in_use_are_those_that_dumpe2fs_calls_used(ask: Callable[[str], str], image: Path) -> None:
    said = ask("dd if=/out/board.img of=/work/root bs=1M skip=52 count=160 status=none; dumpe2fs /work/root")
    free: set[int] = set()
    for line in re.findall(r"Free blocks: (.*)", said):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", line):
            free |= set(range(int(first), int(last or first) + 1))
    mapped = {
        block - 52 * 256 for start, end in _mapped(image) for block in range(start // 4096, end // 4096)
    } & set(range(160 * 256))
    edges = {*range(256), *range(159 * 256, 160 * 256)}
    assert mapped - edges == set(range(160 * 256)) - free - edges


def test_a_card_full_of_old_bytes_is_sound_after_writing_the_map(image: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with (tmp_path / "out/card").open("xb") as card, image.open("rb") as source:
        card.write(b"\xaa" * 256 * MIB)
        for start, end in _mapped(image):
            source.seek(start)
            card.seek(start)
            card.write(source.read(end - start))
    result = sandboxed(
        """
        sfdisk --verify /out/card
        e2fsck -fn '/out/card?offset=54525952'
        dd if=/out/card of=/work/boot bs=1M skip=4 count=48 status=none
        fsck.vfat -n /work/boot
        mdir -/ -b -i /work/boot ::/
        blkid -p -O 4M /out/card; blkid -p -O 52M /out/card
        debugfs -R 'cat /etc/os-release' '/out/card?offset=54525952'
        """,
        tmp_path / "out",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "ID=debian" in result.stdout


def _mapped(image: Path) -> Iterator[tuple[int, int]]:
    read = bmap.read(image.with_suffix(".bmap"))
    return map(read.span, read.ranges)


# --- what cannot be made ------------------------------------------------------------------------------


def refused(tmp_path: Path, change: Callable[[Path], None] = lambda _: None, **options: Any) -> str:
    """What the step says when it refuses these inputs."""
    tools()
    inputs = write_inputs(tmp_path / "in", **options)
    change(inputs)
    result = make(inputs, tmp_path / "out")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_root_larger_than_its_partition(tmp_path: Path) -> None:
    said = refused(tmp_path, tar=rootfs(extra=170))
    assert re.search(r"partition root is too small by \d+ MiB: the root needs 18\d MiB and 32 MiB for", said)


def test_a_root_that_leaves_no_room_for_the_first_boot(tmp_path: Path) -> None:
    said = refused(tmp_path, tar=rootfs(extra=115))
    assert re.search(r"partition root is too small by \d+ MiB: the root needs 13\d MiB and 32 MiB for", said)


def test_a_root_of_more_files_than_inodes(tmp_path: Path) -> None:
    said = refused(tmp_path, tar=rootfs(), text=layout(disk="96MiB", root="20MiB", boot="34MiB"))
    assert "too small" in said


def test_boot_files_larger_than_their_partition(tmp_path: Path) -> None:
    def grow(inputs: Path) -> None:
        os.truncate(inputs / "kernel/Image", 60 * MIB)

    said = refused(tmp_path, grow)
    assert re.search(r"partition boot is too small by 1\d MiB: its 43 files need 6\d MiB", said)


def test_a_loader_larger_than_its_hole(tmp_path: Path) -> None:
    def grow(inputs: Path) -> None:
        os.truncate(inputs / "loader/idbloader.img", MIB + 1)

    assert "loader/idbloader.img is too large for hole idbloader by 1 bytes" in refused(tmp_path, grow)


def test_a_boot_file_that_is_not_there(tmp_path: Path) -> None:
    said = refused(tmp_path, lambda inputs: (inputs / "kernel/Image").unlink())
    assert "error: Image of partition boot: there is no /in/kernel/Image" in said


def test_a_root_without_the_modules_of_its_kernel(tmp_path: Path) -> None:
    said = refused(tmp_path, lambda inputs: (inputs / "kernel/release").write_text("7.3.4\n") and None)
    assert "partition root lacks /usr/lib/modules/7.3.4/modules.dep, without which it cannot boot" in said


def test_a_root_without_os_release(tmp_path: Path) -> None:
    assert "partition root lacks /etc/os-release" in refused(tmp_path, tar=rootfs(without="etc/os-release"))


def test_a_root_that_is_no_tarball(tmp_path: Path) -> None:
    assert "/in/rootfs.tar" in refused(tmp_path, tar=b"no tarball" * 1000)


def test_a_tarball_that_was_cut(tmp_path: Path) -> None:
    assert "error: " in refused(tmp_path, tar=rootfs()[:2_000_000])


def test_a_full_disk_is_said_and_leaves_no_map(inputs: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    for megabytes in (1, 4, 8, 12):
        out = tmp_path / f"out{megabytes}"
        out.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(out)], check=True)
        try:
            result = make(inputs, out)
            assert result.returncode == 1
            assert "Traceback" not in result.stderr
            assert "No space left on device" in result.stderr
            assert not (out / "board.bmap").exists()
        finally:
            subprocess.run(["umount", str(out)], check=True)


# --- what was spoilt after it was made ----------------------------------------------------------------

SPOIL = """
import sys, os
from pathlib import Path
from sealed import image, root
layout = image.json.loads(Path("/in/layout.json").read_text())
file, inputs, work = Path("/out/board.img"), Path("/in"), Path("/work")
surveys = image.assemble(file, layout, inputs, work)
def flip(at, path=file):
    with path.open("r+b") as f:
        f.seek(at); byte = f.read(1)[0]; f.seek(at); f.write(bytes([byte ^ 0xFF]))
def find(needle):
    return file.read_bytes().index(needle)
exec(sys.argv[1])
try:
    image.publish(file, layout, inputs, surveys, work, 2)
except image.Fault as fault:
    sys.exit(f"error: {fault}")
"""


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("flip(512 + 60)", "sfdisk|partition table"),
        ("flip(1024 + 56)", "partition table"),
        ("flip(layout['size'] - 512 - 16384 + 3)", "partition table"),
        ("flip(layout['size'] - 512)", "partition table"),
        ("flip(32768 + 299_999)", "hole idbloader does not hold loader/idbloader.img"),
        ("flip(32768 + 300_000)", "hole idbloader does not hold loader/idbloader.img"),
        ("flip(2 * 2**20)", "hole spare does not hold zeros"),
        ("flip(4 * 2**20 + 32 * 512)", "partition boot was overwritten"),
        ("flip(find(b'default boardwright'))", "partition boot was overwritten"),
        ("flip(52 * 2**20 + 1024 + 0x78)", "e2fsck"),
        ("flip(find(b'modules.dep'))", "e2fsck"),
        ("surveys['root'].names.add('another')", "inodes in use; rootfs.tar asks for"),
        (
            "import shutil; shutil.copy('/in/rootfs.tar', '/work/r.tar');"
            "surveys['root'].tar = Path('/work/r.tar');"
            "flip(surveys['root'].samples[0].at, Path('/work/r.tar'))",
            "in partition root differs from the one in r.tar",
        ),
    ],
)
def test_a_spoilt_image_is_refused(inputs: Path, tmp_path: Path, spoil: str, said: str) -> None:
    program = f"cd /in; python3 -S -c '{SPOIL}' \"$SPOIL\""
    result = sandboxed(program, tmp_path / "out", inputs, {"SPOIL": spoil})
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert re.search(said, result.stderr), result.stderr
    assert not (tmp_path / "out/board.bmap").exists()


def test_what_boot_check_reads_back_is_compared_with_the_sources(inputs: Path, tmp_path: Path) -> None:
    program = """cd /in; python3 -S -c '
import json
from pathlib import Path
from sealed import boot
p = json.loads(Path("/in/layout.json").read_text())["partitions"][0]
image = Path("/work/img"); image.touch(); image.open("r+b").truncate(p["offset"] + p["size"])
files = boot.contents(p, Path("/in"))
boot.make(image, p, files)
for change in ({"Image": Path("/in/extlinux.conf")}, {"more": Path("/in/extlinux.conf")}, {"Image": None}):
    wanted = {name: source for name, source in (files | change).items() if source}
    try:
        boot.check(image, p, wanted, Path("/work"))
    except boot.Fault as fault:
        print(fault)
    Path("/work/boot.fat").unlink()
    __import__("shutil").rmtree("/work/boot.files")
'"""
    result = sandboxed(program, tmp_path / "out", inputs)
    assert result.stdout.splitlines() == [
        "Image in partition boot differs from /in/extlinux.conf",
        "more is not in partition boot",
        "Image should not be in partition boot",
    ], result.stderr
