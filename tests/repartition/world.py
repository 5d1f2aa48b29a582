"""A small eMMC laid out like the shipped one, with files in it, and what is expected of it."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.repartition import execute, ext4, parts, ubootenv
from boardwright.repartition.medium import Medium
from boardwright.repartition.parts import Part
from boardwright.repartition.plan import Plan, Request

MIB = 2**20
FRONT = "64K(uboot),64K(uboot_bk),256K(env),2M(param),64K(logo),64K(dtb),256K(kernel),64K(atf),64K(optee)"
"""The shipped order with sizes of a toy; what is not a file system is filled with noise."""
SHIPPED = f"mmcblk0:{FRONT},12M(rootfs),4M(soc),8M(opt)"
ENVIRONMENT = 128 * 1024
DEVICE = 40 * MIB
STICK_ROOT, STICK_INIT = "PARTUUID=b07d5eed-01", "/usr/lib/boardwright/rescue-init"
REST = "mem=3072M console=ttyS0,115200n8 loglevel=8 rootfstype=ext4 rw rootwait"
Files = dict[str, str]
"""SHA-256 by path."""
_found: dict[str, tuple[int, str, tuple[tuple[str, str], ...]]] = {}


@dataclass
class World:
    """``files``: by partition; ``noise``: digests of what is no file system."""

    device: Path
    layout: str
    files: dict[str, Files] = field(default_factory=dict)
    noise: dict[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Part, ...]:
        return parts.parse(self.layout, "mmcblk0", self.device.stat().st_size)


def program(*words: str | Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*map(str, words)], capture_output=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def bootargs(layout: str, root: str = "/dev/mmcblk0p10") -> str:
    return f"{REST} root={root} blkdevparts={layout}"


def make_world(
    directory: Path, layout: str = SHIPPED, size: int = DEVICE, seed: int = 1, fill: float = 0.25
) -> World:
    """The device as a file in ``directory``."""
    chance = random.Random(seed)
    world = World(directory / "emmc", layout)
    with world.device.open("wb") as file:
        file.truncate(size)
    environment = ubootenv.make(
        {
            "baudrate": "115200",
            "bootargs": bootargs(layout),
            "bootcmd": "axera_boot",
            "ethaddr": "02:00:00:00:00:01",
        }
    )
    with world.device.open("r+b") as device:
        for part in world.parts:
            device.seek(part.offset)
            if part.name == "env":
                device.write(environment)
            elif part.size < 2 * MIB:
                noise = chance.randbytes(part.size)
                device.write(noise)
                world.noise[part.name] = hashlib.sha256(noise).hexdigest()
            else:
                image, world.files[part.name] = file_system(part.name, part.size, chance, fill)
                device.write(image)
    return world


def file_system(name: str, size: int, chance: random.Random, fill: float) -> tuple[bytes, Files]:
    with tempfile.TemporaryDirectory() as scratch:
        tree, image = Path(scratch) / "tree", Path(scratch) / "image"
        tree.mkdir()
        left = int(size * fill)
        number = 0
        while left > 0:
            path = tree / f"d{number % 3}" / f"{name}-{number}"
            path.parent.mkdir(exist_ok=True)
            data = chance.randbytes(min(left, chance.choice((100, 5_000, 70_000, 400_000))))
            path.write_bytes(data)
            left, number = left - max(1024, len(data)), number + 1
        block = "4096" if size >= 10 * MIB else "1024"
        done = program(
            "mke2fs", "-q", "-F", "-t", "ext4", "-b", block, "-L", name, "-d", tree, image, f"{size // 1024}K"
        )
        assert done.returncode == 0, done.stderr
        return image.read_bytes(), {
            path.relative_to(tree).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in tree.rglob("*") if path.is_file()
        }  # fmt: skip


def live(world: World, name: str) -> None:
    """The board runs once more and writes a file to ``name``, in the old layout."""
    part = next(part for part in world.parts if part.name == name)
    data = b"written after the power cut\n"
    with tempfile.TemporaryDirectory() as scratch:
        image, file = Path(scratch) / "image", Path(scratch) / "file"
        with world.device.open("rb") as device:
            device.seek(part.offset)
            image.write_bytes(device.read(part.size))
        file.write_bytes(data)
        program("debugfs", "-w", "-R", f"write {file} late", image)
        with world.device.open("r+b") as device:
            device.seek(part.offset)
            device.write(image.read_bytes())
    world.files[name] = world.files[name] | {"late": hashlib.sha256(data).hexdigest()}


def _contents(image: bytes) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    """What e2fsck and debugfs find in these bytes; remembered by their digest, as they are megabytes."""
    digest = hashlib.sha256(image).hexdigest()
    if digest not in _found:
        _found[digest] = _look(image)
    return _found[digest]


def _look(image: bytes) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    with tempfile.TemporaryDirectory() as scratch:
        file, tree = Path(scratch) / "image", Path(scratch) / "tree"
        file.write_bytes(image)
        tree.mkdir()
        check = program("e2fsck", "-f", "-n", file)
        program("debugfs", "-R", f"rdump / {tree}", file)
        found = sorted(
            (path.relative_to(tree).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
            for path in tree.rglob("*") if path.is_file()
        )  # fmt: skip
        shutil.rmtree(tree, ignore_errors=True)
        return check.returncode, check.stdout.decode(errors="replace"), tuple(found)


def assert_holds(
    world: World, layout: str, *, grown: tuple[str, ...] = (), empty: tuple[str, ...] = ()
) -> None:
    """Every file system is sound and has exactly its files; noise is where it should be."""
    with world.device.open("rb") as device:
        for part in parts.parse(layout, "mmcblk0", world.device.stat().st_size):
            device.seek(part.offset)
            data = device.read(part.size)
            if part.name in world.noise:
                assert hashlib.sha256(data[: part.size]).hexdigest() == world.noise[part.name], part.name
            elif part.name in empty or part.name in world.files:
                found = ext4.superblock(lambda offset, length, data=data: data[offset : offset + length])  # type: ignore[misc]
                assert found is not None, part.name
                assert found.size <= part.size, part.name
                if part.name in grown:
                    assert found.size > part.size - 4096, part.name
                status, said, files = _contents(data)
                assert status == 0, f"{part.name}: {said}"
                assert dict(files) == ({} if part.name in empty else world.files[part.name]), part.name


def environment(world: World) -> dict[str, str] | None:
    """The variables on the device, or ``None`` when the CRC is wrong."""
    with world.device.open("rb") as device:
        device.seek(ENVIRONMENT)
        try:
            return ubootenv.read(device.read(ubootenv.SIZE))
        except parts.Refused:
            return None


@dataclass
class Job:
    """What is asked for."""

    to: str
    format: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    room: int = 2**30
    root: str = "/dev/mmcblk0p10"


def planned(medium: Medium, job: Job) -> tuple[Request, Plan, dict[str, bytes]]:
    """As the command line does it."""
    from boardwright.repartition.__main__ import _parser
    from boardwright.repartition.__main__ import planned as plan_of

    words = ["plan", "--to", job.to, "--stick-root", STICK_ROOT, "--stick-init", STICK_INIT]
    words += ["--environment", str(ENVIRONMENT), "--room", str(job.room), "--root", job.root]
    for option, names in (("--format", job.format), ("--delete", job.delete)):
        for name in names:
            words += [option, name]
    return plan_of(_parser().parse_args(words), medium)


def identity(medium: Medium) -> dict[str, object]:
    return {"size": medium.size, "cid": "", "environment": ENVIRONMENT}


def run(medium: Medium, job: Job) -> Plan:
    """Begin, or go on; to the end."""
    journal = execute.pending(medium)
    if journal is not None:
        execute.resume(medium, journal, identity(medium), lambda _: None)
        return Plan((), 0, ())
    _, plan, blocks = planned(medium, job)
    journal = execute.start(medium, plan.operations, blocks, identity(medium))
    execute.Run(medium, journal, lambda _: None).all()
    return plan
