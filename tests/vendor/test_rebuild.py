"""A synthetic package comes out with our root, layout and split, and with everything else as it was."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from packages import NOISE, headed
from test_vermagic import module

from boardwright.errors import InputError, ProductError
from boardwright.layout import blkdevparts
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Split, parse_cmmpool
from boardwright.vendor import axera_header, axera_package, axera_xml, rebuild, sparse, uboot_env
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind, Partition, Project

MIB = 2**20
PATH = f"/usr/sbin:/sbin:{os.environ['PATH']}"
pytestmark = pytest.mark.skipif(
    shutil.which("mke2fs", path=PATH) is None or shutil.which("debugfs", path=PATH) is None,
    reason="the host has no e2fsprogs",
)
SHIPPED = "anonymous,0,0x200000000,4096M"
POOL = "anonymous,0,0x1C0000000,5120M"
SPLIT = Split(2**32, 2**33, 3 * 2**30, parse_cmmpool(POOL))
SCRIPT = f"#!/bin/sh\ninsmod /soc/ko/ax_sys.ko\ninsmod /soc/ko/ax_cmm.ko cmmpool={SHIPPED}\n# end\n"
KERNEL = b"Image" + NOISE.randbytes(20_000) + b"Linux version 5.15.73 (builder@host)\0"
MAGIC = "5.15.73 SMP preempt mod_unload aarch64"

SIZES = {  # name: contents, file system, mount, MiB as shipped, MiB wanted
    "uboot": ("uboot", "raw", None, 2, 2), "env": ("env", "raw", None, 1, 1),
    "dtb": ("dtb", "raw", None, 1, 1),
    "kernel": ("kernel", "raw", None, 2, 2), "atf": ("atf", "raw", None, 1, 1),
    "rootfs": ("rootfs", "ext4", "/", 32, 64), "soc": ("data", "ext4", "/soc", 32, 32),
    "opt": ("data", "ext4", "/opt", 64, 32),
}  # fmt: skip


def table(column: int = 4, **other: int) -> Table:
    """The layout of a column of ``SIZES``; ``other``: MiB of a partition instead."""
    at, parts = 0, []
    for number, (name, row) in enumerate(SIZES.items(), start=1):
        size = other.get(name, row[column]) * MIB
        parts.append(PlacedPartition(name, at, size, number, row[1], row[0], False, row[2]))
        at += size
    return Table(at, (), tuple(parts), "mmcblk0")


def ext4(target: Path, files: dict[str, bytes], size: int) -> bytes:
    """A file system of so many MiB with these files."""
    tree = target.with_suffix(".tree")
    for name, data in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-d", str(tree), str(target), f"{size}M"]
    subprocess.run(command, check=True, env={**os.environ, "PATH": PATH}, capture_output=True)
    return target.read_bytes()


def packed(data: bytes) -> bytes:
    made = io.BytesIO()
    sparse.pack(io.BytesIO(data), made)
    return made.getvalue()


def tool(command: list[str], directory: Path) -> str:
    done = subprocess.run(
        command, cwd=directory, check=False, capture_output=True, text=True, env={**os.environ, "PATH": PATH}
    )
    if done.returncode not in (0, 1):
        raise ProductError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


class Case:
    """A vendor's package in ``tmp_path``, and what is wished of it."""

    def __init__(
        self, tmp_path: Path, script: str = SCRIPT, magic: str = MAGIC, opt: int = 1, without: str = "",
        kernel: bytes = KERNEL, files: dict[str, bytes] | None = None, images: tuple[Image, ...] = (),
        xml: str = "",
    ) -> None:  # fmt: skip
        self.path = tmp_path
        soc = {"scripts/auto_load_all_drv.sh": script.encode(), "ko/ax_cmm.ko": module(magic)}
        self.files = {
            "eip.bin": NOISE.randbytes(700),
            "fdl2_signed.bin": NOISE.randbytes(5500),
            "u-boot_signed.bin": NOISE.randbytes(100_000),
            "box.dtb": headed(b"\xd0\x0d\xfe\xed" + NOISE.randbytes(3000)),
            "boot_signed.bin": headed(kernel),
            "atf_bl31_signed.bin": headed(NOISE.randbytes(30_000)),
            "rootfs_sparse.ext4": packed(ext4(tmp_path / "vendor-root", {"etc/os-release": b"busybox"}, 32)),
            "soc_sparse.ext4": packed(ext4(tmp_path / "soc", soc, 32)),
            "opt_sparse.ext4": packed(
                ext4(tmp_path / "opt", {"data/models": NOISE.randbytes(opt * MIB)}, 64)
            ),
        }
        self.files |= files or {}
        blocks = dict(
            zip(list(self.files)[2:9], ["uboot", "dtb", "kernel", "atf", "rootfs", "soc", "opt"], strict=True)
        )
        images = (
            Image("EIP", Kind.EIP, "eip.bin", base=0x3000000, flag=3),
            Image("FDL", Kind.FDL, "fdl2_signed.bin", base=0x14000000, flag=3),
            *(Image(b.upper(), Kind.CODE, f, b) for f, b in blocks.items() if b != without),
            *images,
        )
        parts = tuple(Partition(name, row[3] * 1024) for name, row in SIZES.items())
        project = Project(axera_xml.Table(parts), images, 1, "AX650X", "AX650X_pipro", "V1.45.0")
        (tmp_path / "members").mkdir()
        for name, data in self.files.items():
            (tmp_path / "members" / name).write_bytes(data)
        self.package = tmp_path / "vendor.axp"
        axera_package.make(self.package, project, {n: tmp_path / "members" / n for n in self.files}, xml)
        root = tmp_path / "root.img"
        self.root = ext4(root, {"etc/os-release": b"debian"}, 48)
        wanted = table()
        self.bootargs = (
            f"mem=3072M root=/dev/mmcblk0p6 blkdevparts={blkdevparts.text(wanted.partitions, 'mmcblk0')}"
        )
        self.wish = rebuild.Wish(wanted, root, SPLIT, self.bootargs, tool)
        self.axp, self.updates = tmp_path / "ours.axp", tmp_path / "update"

    def rebuilt(self, **change: object) -> rebuild.Rebuilt:
        work = self.path / "work"
        work.mkdir()
        with Package(self.package) as package:
            return rebuild.rebuild(package, replace(self.wish, **change), self.axp, self.updates, work)  # type: ignore[arg-type]


def contents(package: Package, name: str) -> bytes:
    return package.read(name, 2**30)


def unpacked(data: bytes, target: Path) -> Path:
    with target.open("xb") as made:
        sparse.unpack(io.BytesIO(data), made)
    return target


def test_ours_is_changed_and_the_vendors_is_kept(tmp_path: Path) -> None:
    case = Case(tmp_path)
    report = case.rebuilt()
    with Package(case.axp) as package:
        assert [f.text for f in package.verify() if not f.good] == []
        kept = (
            "eip.bin",
            "fdl2_signed.bin",
            "u-boot_signed.bin",
            "box.dtb",
            "boot_signed.bin",
            "atf_bl31_signed.bin",
        )
        assert {name: contents(package, name) for name in kept} == {name: case.files[name] for name in kept}
        assert sorted(report.kept) == sorted(kept)
        found = [(p.name, p.size) for p in package.project.table.partitions]
        assert found == [(p.name, p.size // 1024) for p in case.wish.table.partitions]
        root = unpacked(contents(package, "rootfs_sparse.ext4"), tmp_path / "root.back")
        assert root.read_bytes() == case.root
        environment = uboot_env.parse(contents(package, "env.bin"))
        assert environment.variables == {"bootargs": case.bootargs}
        soc = unpacked(contents(package, "soc_sparse.ext4"), tmp_path / "soc.back")
        opt = unpacked(contents(package, "opt_sparse.ext4"), tmp_path / "opt.back")
    tool(["debugfs", "-R", "dump /scripts/auto_load_all_drv.sh script.back", soc.name], tmp_path)
    assert (tmp_path / "script.back").read_text() == SCRIPT.replace(SHIPPED, POOL)
    assert "Mode:  0755" in tool(["debugfs", "-R", "stat /scripts/auto_load_all_drv.sh", soc.name], tmp_path)
    assert opt.stat().st_size == 32 * MIB
    for image in (soc, opt):
        assert "clean" in tool(["e2fsck", "-n", image.name], tmp_path)
    assert report.notes == {
        "cmmpool": f"anonymous,0x200000000,{2**32} became {POOL}",
        "vermagic": MAGIC,
        "kernel": "Linux version 5.15.73 (builder@host)",
    }


def test_the_update_files_have_the_names_that_u_boot_looks_for(tmp_path: Path) -> None:
    case = Case(tmp_path)
    report = case.rebuilt()
    names = ["AX650X_pipro.xml", "atf.img", "bootargs.txt", "dtb.img", "kernel.img", "opt.img", "rootfs.img",
             "soc.img", "uboot.bin"]  # fmt: skip
    assert sorted(path.name for path in case.updates.iterdir()) == names
    assert sorted(report.files) == [f"update/{name}" for name in names]
    with (case.updates / "kernel.img").open("rb") as file:
        axera_header.check(file)
    assert case.bootargs in (case.updates / "bootargs.txt").read_text()


def test_the_same_package_comes_out_twice(tmp_path: Path) -> None:
    """Raw parts and index; e2fsprogs' own clock is the sealed environment's business (vendor_build)."""
    (tmp_path / "one").mkdir()
    case = Case(tmp_path / "one", script=SCRIPT.replace(SHIPPED, POOL), opt=1)
    bigger = table(opt=64)
    case.rebuilt(table=bigger)
    first = case.axp.read_bytes()
    shutil.rmtree(case.path / "work")
    shutil.rmtree(case.updates)
    case.axp.unlink()
    case.rebuilt(table=bigger)
    assert case.axp.read_bytes() == first


def test_a_kernel_of_the_sdk_takes_the_place_of_the_vendors(tmp_path: Path) -> None:
    case = Case(tmp_path)
    own = tmp_path / "kernel.img"
    own.write_bytes(headed(KERNEL + b"of our own"))
    report = case.rebuilt(kernel=own)
    with Package(case.axp) as package:
        assert contents(package, "boot_signed.bin") == own.read_bytes()
    assert report.changed["boot_signed.bin"] == "a kernel compiled from the vendor's SDK"


def test_a_kernel_that_is_not_the_modules_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path)
    own = tmp_path / "kernel.img"
    own.write_bytes(headed(KERNEL.replace(b"5.15.73", b"5.15.73-dirty")))
    with pytest.raises(InputError, match=r"is Linux 5\.15\.73-dirty, soc's modules are for 5\.15\.73"):
        case.rebuilt(kernel=own)


@pytest.mark.parametrize(("case", "change", "said"), [
    ({"opt": 40}, {}, "partition opt has 33554432 bytes; the vendor's files need"),
    ({}, {"table": table(kernel=0)}, "partition kernel has 0 bytes, the vendor's boot_signed.bin"),
    ({"without": "rootfs"}, {}, "expected an image for partition rootfs, found"),
    ({"without": "soc"}, {}, "expected an image for partition soc, found"),
    ({"images": (Image("AGAIN", Kind.CODE, "box.dtb", "dtb"),)}, {},
     "expected one image for partition dtb, found DTB (box.dtb) and AGAIN (box.dtb)"),
    ({"without": "opt", "images": (Image("OPT", Kind.CODE, "soc_sparse.ext4", "opt"),)}, {},
     "expected a file for each file system, found one for SOC (soc_sparse.ext4) and OPT (soc_sparse.ext4)"),
    ({"files": {"soc_sparse.ext4": packed(bytes(MIB))}}, {},
     "expected /scripts/auto_load_all_drv.sh in the partition mounted at /soc, found none"),
    ({"files": {"opt_sparse.ext4": packed(b"\xff" * 64 * MIB)}}, {},
     "opt_sparse.ext4 for partition opt: e2fsck"),
    ({"script": "#!/bin/sh\n"}, {}, "found 0"),
    ({"script": SCRIPT + SCRIPT}, {}, "found 2 (lines 3, 7)"),
    ({"script": SCRIPT.replace("insmod /soc/ko/ax_cmm", "# insmod /soc/ko/ax_cmm")}, {}, "found 0"),
    ({"magic": MAGIC.replace("73", "74")}, {}, "is Linux 5.15.73, soc's modules are for 5.15.74"),
    ({"kernel": KERNEL[:-1] + b" (gcc) #1 SMP Thu Jan 1"}, {},
     "is built without PREEMPT, soc's modules with it"),
    ({"kernel": KERNEL[:-1] + b" (gcc) #1 SMP PREEMPT Thu", "magic": MAGIC.replace("SMP ", "")}, {},
     "has SMP, soc's modules not"),
], ids=["opt-full", "kernel-room", "no-root", "no-soc", "two-images", "one-file", "no-soc-fs", "no-opt-fs",
        "no-load", "two-loads", "comment", "other-kernel", "not-preempt", "smp"])  # fmt: skip
def test_what_cannot_be_is_refused_with_its_number(
    tmp_path: Path, case: dict[str, object], change: dict[str, object], said: str
) -> None:
    made = Case(tmp_path, **case)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        made.rebuilt(**change)
    assert said in caught.value.message
    assert not made.axp.exists()


def test_an_image_for_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path)
    without = Table(0, (), tuple(p for p in table().partitions if p.name != "opt"), "mmcblk0")
    with pytest.raises(InputError, match="image OPT is for partition opt, which the board file has not"):
        case.rebuilt(table=without)


def test_a_script_with_other_line_ends_stays_but_for_its_value(tmp_path: Path) -> None:
    script = SCRIPT.replace("\n", "\r\n") + "# \udcff\n"
    case = Case(tmp_path, script=SCRIPT)
    raw = script.encode("utf-8", "surrogateescape")
    soc = ext4(tmp_path / "other", {"scripts/auto_load_all_drv.sh": raw, "ko/ax_cmm.ko": module(MAGIC)}, 32)
    (tmp_path / "members/soc_sparse.ext4").write_bytes(packed(soc))
    with Package(case.package) as package:
        project = package.project
    case.package.unlink()
    axera_package.make(case.package, project, {n: tmp_path / "members" / n for n in case.files})
    case.rebuilt()
    with Package(case.axp) as package:
        made = unpacked(contents(package, "soc_sparse.ext4"), tmp_path / "soc.back")
    tool(["debugfs", "-R", "dump /scripts/auto_load_all_drv.sh script.back", made.name], tmp_path)
    assert (tmp_path / "script.back").read_bytes() == raw.replace(SHIPPED.encode(), POOL.encode())


ENV = Image("ENV", Kind.CODE, "env.img", "env")


def test_the_vendors_environment_keeps_its_other_variables(tmp_path: Path) -> None:
    theirs = {"ethaddr": "02:00:00:00:00:01", "bootargs": "mem=4096M", "bootdelay": "3"}
    block = uboot_env.make(uboot_env.Environment(theirs)) + bytes(4096)
    case = Case(tmp_path, files={"env.img": block}, images=(ENV,))
    report = case.rebuilt()
    with Package(case.axp) as package:
        found = uboot_env.parse(contents(package, "env.img"))
        assert [image.file for image in package.project.images if image.block == "env"] == ["env.img"]
    assert found.variables == theirs | {"bootargs": case.bootargs}
    assert report.changed["env.img"] == "bootargs of the board file; kept: ethaddr, bootdelay"


def test_an_erased_environment_becomes_one(tmp_path: Path) -> None:
    case = Case(tmp_path, files={"env.img": b"\xff" * 0x20000}, images=(ENV,))
    report = case.rebuilt()
    with Package(case.axp) as package:
        assert uboot_env.parse(contents(package, "env.img")).variables == {"bootargs": case.bootargs}
    assert "the vendor's is none (the environment's CRC-32 is 0xffffffff" in report.changed["env.img"]


def test_an_added_environment_takes_nobodys_name(tmp_path: Path) -> None:
    taken = (Image("ENV", Kind.ERASE, None, "env", flag=0), Image("OTHER", Kind.EIP, "env.bin", flag=3))
    case = Case(tmp_path, files={"env.bin": b"theirs"}, images=taken)
    case.rebuilt()
    with Package(case.axp) as package:
        assert contents(package, "env.bin") == b"theirs"
        (own,) = [i for i in package.project.images if i.block == "env" and i.kind is Kind.CODE]
        assert own.file == "boardwright-env.bin"
        assert uboot_env.parse(contents(package, own.file)).variables == {"bootargs": case.bootargs}


def test_members_that_the_index_does_not_name_are_said_to_be_left_out(tmp_path: Path) -> None:
    case = Case(tmp_path)
    with zipfile.ZipFile(case.package, "a") as archive:
        archive.writestr("release-notes.txt", b"read me")
    report = case.rebuilt()
    assert report.notes["left out"] == "release-notes.txt: no image of the index names them"
    with Package(case.axp) as package:
        assert "release-notes.txt" not in [member.name for member in package.members]


def test_the_index_of_the_update_set_has_a_name_that_u_boot_looks_for(tmp_path: Path) -> None:
    case = Case(tmp_path, xml="images/pipro.xml")
    case.rebuilt()
    assert [path.name for path in case.updates.glob("*.xml")] == ["AX650X_pipro.xml"]


def test_a_kernel_that_names_no_release_is_noted(tmp_path: Path) -> None:
    report = Case(tmp_path, kernel=b"Image" * 1000).rebuilt()
    assert report.notes["kernel"] == "boot_signed.bin names no release: not compared with soc's"


def files_of(tmp_path: Path, files: dict[str, bytes]) -> dict[str, Path]:
    """A tarball for the partition opt, as the step vendor-parts makes it."""
    tar = tmp_path / "opt.tar"
    with tarfile.open(tar, "w") as archive:
        for directory in sorted({name.partition("/")[0] for name in files}):
            info = tarfile.TarInfo(directory)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return {"opt": tar}


@pytest.mark.parametrize("room", [32, 96], ids=["a smaller partition", "a larger partition"])
def test_models_go_into_the_partition_that_is_mounted_over_their_path(tmp_path: Path, room: int) -> None:
    """Twenty MiB of them: more than the vendor's file system of 64 MiB has free, were it not grown to 96."""
    weights = NOISE.randbytes((12 if room == 32 else 70) * MIB)
    case = Case(tmp_path)
    report = case.rebuilt(
        table=table(opt=room),
        files=files_of(tmp_path, {"models/stories.bin": weights, "models/tokenizer.bin": b"words"}),
    )
    with Package(case.axp) as package:
        opt = unpacked(contents(package, "opt_sparse.ext4"), tmp_path / "opt.back")
    assert opt.stat().st_size == room * MIB
    assert "clean" in tool(["e2fsck", "-n", opt.name], tmp_path)
    tool(["debugfs", "-R", "rdump / .", opt.name], tmp_path)
    assert (tmp_path / "models/stories.bin").read_bytes() == weights
    assert (tmp_path / "models/tokenizer.bin").read_bytes() == b"words"
    assert (tmp_path / "data/models").stat().st_size == MIB, "the vendor's own files stay"
    said = tool(["debugfs", "-R", "stat /models/stories.bin", opt.name], tmp_path)
    assert "Mode:  0644" in said
    assert "User:     0   Group:     0" in said
    assert "added /opt/models/stories.bin, /opt/models/tokenizer.bin" in report.changed["opt_sparse.ext4"]


def test_models_for_which_there_is_no_room_are_refused_with_both_numbers(tmp_path: Path) -> None:
    case = Case(tmp_path)
    with pytest.raises(InputError, match=r"partition opt has \d+ bytes free .* need 42\d{6}\b") as caught:
        case.rebuilt(files=files_of(tmp_path, {"models/large.bin": bytes(40 * MIB)}))
    assert "fewer models" in (caught.value.hint or "")
    assert not case.axp.exists()


def test_models_for_a_partition_that_the_package_has_no_image_of_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, without="opt")
    with pytest.raises(InputError, match=r"opt, into which models of local\.yaml go, found atf") as caught:
        case.rebuilt(files=files_of(tmp_path, {"models/m": b"1"}))
    assert "copy them there" in (caught.value.hint or "")


def test_a_layout_without_soc_has_no_place_for_the_split(tmp_path: Path) -> None:
    case = Case(tmp_path)
    parts = tuple(p for p in table().partitions if p.name != "soc")
    with pytest.raises(InputError, match="expected a partition mounted at /soc"):
        case.rebuilt(table=Table(0, (), parts, "mmcblk0"))


def test_a_table_that_the_flash_loader_has_no_room_for_is_refused_with_both_numbers(tmp_path: Path) -> None:
    case, wanted = Case(tmp_path), table()
    more = [
        PlacedPartition(f"{n}".ljust(31, "x"), wanted.size + n * MIB, MIB, 9 + n, "raw", "other", False)
        for n in range(6)
    ]
    long = Table(wanted.size + 6 * MIB, (), (*wanted.partitions, *more), "mmcblk0")
    with pytest.raises(InputError, match=r"the table takes \d{3} characters of bootargs, .* room for 271"):
        case.rebuilt(table=long)
    assert not case.axp.exists()


def test_a_package_that_the_flash_loader_would_refuse_is_not_left(tmp_path: Path) -> None:
    case = Case(tmp_path, files={"boot_signed.bin": headed(KERNEL), "fdl2_signed.bin": b""})
    with pytest.raises(InputError, match=r"FDL: expected a file with bytes, found fdl2_signed\.bin"):
        case.rebuilt()
    assert not case.axp.exists()
