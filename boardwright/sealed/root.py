"""The root partition: ext4 made in place in the image from a tarball by mke2fs, and read back.

Needs mke2fs 1.47.1 or later with libarchive. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .inuse import Image, Superblock
from .tooling import Fault, finish, run, size, start

if TYPE_CHECKING:
    import tarfile

BLOCK = 4096
RESERVED_INODES = 11
"""Inodes 1 to 10, and lost+found (e2fsprogs ``ext2_fs.h``)."""
SPARE_BLOCKS, SPARE_INODES = 32 * 2**20 // BLOCK, 1000
"""What the first boot may need before the root is grown: host keys, journal, machine-id."""
SAMPLES, SAMPLE_SIZE = 32, 2**20


def begin(image: Path, partition: dict[str, Any], tar: Path) -> subprocess.Popen[str]:
    """Start mke2fs; see :func:`end`.

    Everything that mke2fs would choose by chance, by size or by looking at the running kernel is given:
    tables and journal are written now, since stale bytes of an earlier flash of the same image (the same
    UUID!) could otherwise be taken for a journal to replay. ``metadata_csum_seed`` and ``orphan_file``
    are left out so that U-Boot and distributions of 2022 can read and check the root.
    """
    place = f"offset={partition['offset']}"
    blocks = f"{partition['size'] // BLOCK}"
    return start(["mke2fs", *_options(partition, place), "-d", str(tar), str(image), blocks])


def end(
    process: subprocess.Popen[str], image: Path, partition: dict[str, Any], survey: Survey, work: Path
) -> None:
    """Wait for mke2fs. Raises Fault, first of all for a tarball that does not fit."""
    try:
        _write_back(process, image)
        said = finish(process)
    except Fault:
        survey.check_fits(partition, work / "empty.ext4")
        raise
    if said.strip():
        raise Fault(f"mke2fs complained about {image.name}:\n{said.strip()}")


def _write_back(process: subprocess.Popen[str], image: Path) -> None:
    """Push pages to the disk while mke2fs still computes: its fsync at the end then has little to do."""
    with image.open("rb") as file:
        while process.poll() is None:
            os.fdatasync(file.fileno())
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)


def _options(partition: dict[str, Any], extended: str) -> list[str]:
    fixed = "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    return [
        *f"-q -F -t ext4 -b {BLOCK} -I 256 -i 16384 -O ^metadata_csum_seed,^orphan_file".split(),
        *["-U", partition["uuid"], "-L", partition["label"]],
        *["-E", f"{fixed},hash_seed={partition['hash-seed']},{extended}"],
    ]


@dataclass(frozen=True, slots=True)
class Sample:
    """A regular file whose bytes are compared: ``at`` and ``length`` in the tarball."""

    name: str
    at: int
    length: int


@dataclass(slots=True)
class Survey:
    """What a tarball asks of a file system."""

    tar: Path
    names: set[str] = field(default_factory=set)
    hard_links: int = 0
    blocks: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def inodes(self) -> int:
        return len(self.names) - self.hard_links + RESERVED_INODES

    def check_fits(self, partition: dict[str, Any], scratch: Path) -> None:
        """Raise Fault when the tarball and some room for the first boot exceed an empty file system."""
        scratch.touch(exist_ok=False)
        os.truncate(scratch, partition["size"])
        run(["mke2fs", *_options(partition, "offset=0"), str(scratch)])
        with scratch.open("rb") as file:
            empty = Superblock(Image(file), 0)
        scratch.unlink()
        needed, room = self.blocks + SPARE_BLOCKS, empty.free_blocks
        if needed > room:
            raise Fault(
                f"partition {partition['name']} is too small by {size((needed - room) * BLOCK)}: the root "
                f"needs {size(self.blocks * BLOCK)} and {size(SPARE_BLOCKS * BLOCK)} for the first boot, "
                f"an empty ext4 of {size(partition['size'])} has {size(room * BLOCK)}"
            )
        wanted = self.inodes + SPARE_INODES
        if wanted > empty.inodes:
            raise Fault(
                f"partition {partition['name']} is too small: it has {empty.inodes:,} inodes, one for every "
                f"16 KiB, and the root needs {self.inodes:,} and {SPARE_INODES:,} for the first boot"
            )


def survey(tar: Path) -> Survey:
    """Read the headers of a tarball. Raises Fault when it is none, or names something twice."""
    import tarfile  # while mke2fs runs, not before

    result, files = Survey(tar), []
    try:
        with tarfile.open(tar, "r:") as archive:
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep every header
                name = member.name.removeprefix("./").strip("/")
                if name in ("", "."):
                    continue
                if name in result.names:
                    raise Fault(f"{tar.name} holds {name} twice")
                if name != "lost+found":
                    result.names.add(name)
                _weigh(member, result)
                if member.isreg() and 0 < member.size <= SAMPLE_SIZE:
                    files.append(
                        (zlib.crc32(name.encode(errors="replace")), name, member.offset_data, member.size)
                    )
    except tarfile.TarError as error:
        raise Fault(f"{tar} is not a tarball: {error}") from error
    # By checksum of the name: spread over the tree, and the same files every time.
    result.samples = [Sample(*file[1:]) for file in sorted(files)[:SAMPLES] if _plain(file[1])]
    return result


def _weigh(member: tarfile.TarInfo, result: Survey) -> None:
    result.hard_links += member.islnk()
    if member.isreg():
        result.blocks += -(-member.size // BLOCK)
    elif member.isdir() or (member.issym() and len(member.linkname) >= 60):
        result.blocks += 1


def check(
    image: Path,
    partition: dict[str, Any],
    found: Survey,
    superblock: Superblock,
    required: list[str],
    work: Path,
) -> None:
    """The root is sound, is the tarball's, and can boot. Raises Fault."""
    device, name = f"{image}?offset={partition['offset']}", partition["name"]
    run(["e2fsck", "-f", "-n", device])
    made = superblock.inodes - superblock.free_inodes
    if made != found.inodes:
        raise Fault(f"partition {name} has {made} inodes in use; {found.tar.name} asks for {found.inodes}")
    if superblock.free_blocks < SPARE_BLOCKS or superblock.free_inodes < SPARE_INODES:
        found.check_fits(partition, work / "empty.ext4")
        raise Fault(
            f"partition {name} has {size(superblock.free_blocks * BLOCK)} and {superblock.free_inodes:,} "
            f"inodes free; the first boot may need {size(SPARE_BLOCKS * BLOCK)} and {SPARE_INODES:,}"
        )
    _check_requires(device, name, required, work)
    _check_samples(device, name, found, work)


def _check_requires(device: str, name: str, required: list[str], work: Path) -> None:
    """debugfs looks each path up, links followed; it says 'File not found' and ends with 0 all the same."""
    for path in required:
        if "Inode:" not in _debugfs(device, [f'stat "{path}"'], work / "requires.debugfs"):
            raise Fault(f"partition {name} lacks {path}, without which it cannot boot")


def _check_samples(device: str, name: str, found: Survey, work: Path) -> None:
    out = work / f"{name}.samples"
    out.mkdir()
    requests = [f'dump "/{sample.name}" {out}/{number}' for number, sample in enumerate(found.samples)]
    _debugfs(device, requests, work / "samples.debugfs")
    with found.tar.open("rb") as tar:
        for number, sample in enumerate(found.samples):
            tar.seek(sample.at)
            dumped = out / str(number)
            if not dumped.exists() or dumped.read_bytes() != tar.read(sample.length):
                raise Fault(f"/{sample.name} in partition {name} differs from the one in {found.tar.name}")


def _debugfs(device: str, requests: list[str], script: Path) -> str:
    script.write_text("".join(f"{request}\n" for request in requests))
    return run(["debugfs", "-f", str(script), device])


def _plain(name: str) -> bool:
    """Whether debugfs takes the name between double quotes."""
    return name.isprintable() and '"' not in name and "\\" not in name
