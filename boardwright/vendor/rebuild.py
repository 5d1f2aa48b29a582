"""A vendor's ``.axp`` with our root file system, our layout and our split of memory; the rest is kept.

Kept, byte for byte: U-Boot and its backup, kernel, device tree, TF-A, OP-TEE, logo, and what the flash
loader needs. Changed: the root file system; in the file system of ``/soc`` one line, ``cmmpool=`` of the
load script; file systems larger than their new partition, which are made smaller when what is in them fits;
the index's partition table. Added when it is missing: U-Boot's environment, since the bootargs compiled
into the vendor's U-Boot name the shipped layout. That an environment of ``bootargs`` alone serves is
inferred (U-Boot sets the rest at each boot, ``cmd/axera/setup_boot``), and no board has seen such a
package.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.errors import InputError, Place
from boardwright.layout import consumers, loadscript
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Pool, Split
from boardwright.vendor import axera_package, axera_xml, sparse, uboot_env, vermagic
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind

SCRIPT = "/scripts/auto_load_all_drv.sh"
"""Below ``/soc`` (SDK, rootfs/Makefile, which puts ``cmmpool=`` into it)."""
MODULES = "/ko"
_BANNER = re.compile(rb"Linux version (\S{1,64}) ")
Tool = Callable[[list[str], Path], str]
"""Run an e2fsprogs command with a directory as ``/work``; what it printed. Raises ``ProductError``."""


@dataclass(frozen=True, slots=True)
class Wish:
    """``root``: an ext4 for the root partition, no larger than it. ``tool``: e2fsprogs, sealed."""

    table: Table
    root: Path
    split: Split
    bootargs: str
    tool: Tool
    kernel: Path | None = None
    """Instead of the vendor's, with its header."""


@dataclass(slots=True)
class Rebuilt:
    """What became of each image of the package, by its file's name; ``notes`` for people and the manifest."""

    kept: list[str] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 by file below the output directory."""


def rebuild(package: Package, wish: Wish, target: Path, updates: Path, work: Path) -> Rebuilt:
    """Write the package ``target`` and the directory ``updates``. ``work``: an empty directory.

    Raises ``InputError`` with the partition and the number that does not fit, ``IntegrityError`` for
    a damaged package, ``HostError``.
    """
    report = Rebuilt()
    _check(package, wish.table)
    apart = work / "apart"
    package.extract(apart)
    files = {m.name: apart / m.name for m in package.members if m.name != package.xml_name}
    for image in package.project.images:
        if image.kind is Kind.CODE and image.file:
            _image(image, _placed(wish.table, image, package), files, wish, work, report)
        elif image.file:
            report.kept.append(image.file)
    _check_kernel(package, files, report)
    xml = _index(package, wish, files, work, report)
    axera_package.make_raw(target, xml, files, package.xml_name)
    _updates(package, xml, files, wish, updates, report)
    return report


def _check(package: Package, table: Table) -> None:
    """The package is for this layout. Raises ``InputError``."""
    place = Place(str(package.path))
    names = {image.block for image in package.project.images if image.kind is Kind.CODE}
    for needed in ("uboot", "kernel", "dtb", "atf", "rootfs"):
        wanted = table.holding(needed).name
        if wanted not in names:
            listed = ", ".join(sorted(map(str, names)))
            raise InputError(f"expected an image for partition {wanted}, found {listed}", place=place)
    for bad in (finding for finding in package.verify() if not finding.good):
        # A partition that grows makes room; whether the new one is large enough is asked below.
        if "does not fit" not in bad.text:
            raise InputError(f"{bad.member}: {bad.text}", place=place)


def _placed(table: Table, image: Image, package: Package) -> PlacedPartition:
    for partition in table.partitions:
        if partition.name == image.block:
            return partition
    raise InputError(
        f"image {image.name} is for partition {image.block}, which the board file has not",
        place=Place(str(package.path)),
        hint=f"the board file has {', '.join(p.name for p in table.partitions)}",
    )


def _image(
    image: Image, partition: PlacedPartition, files: dict[str, Path], wish: Wish, work: Path, report: Rebuilt
) -> None:
    assert image.file is not None
    if partition.contents == "rootfs":
        _packed(wish.root, files[image.file])
        report.changed[image.file] = "the root file system is boardwright's"
        return
    if partition.contents == "kernel" and wish.kernel:
        shutil.copyfile(wish.kernel, files[image.file])
        report.changed[image.file] = "a kernel compiled from the vendor's SDK"
        return
    if partition.contents == "env":
        report.changed[image.file] = "bootargs of the board file"
        files[image.file].write_bytes(_environment(wish))
        return
    if partition.filesystem != "ext4":
        size = files[image.file].stat().st_size
        if size > partition.size:
            raise InputError(
                f"partition {partition.name} has {partition.size} bytes, the vendor's {image.file} {size}",
                hint="make the partition larger in the board file",
            )
        report.kept.append(image.file)
        return
    raw = work / f"{partition.name}.ext4"
    _unpacked(files[image.file], raw)
    before = _digest(raw)
    reasons = []
    if raw.stat().st_size > partition.size:
        reasons.append(_shrunk(raw, partition, wish.tool))
    if partition.mount == "/soc":
        reasons.append(_split(raw, wish, report))
    if reasons and _digest(raw) != before:
        _packed(raw, files[image.file])
        report.changed[image.file] = "; ".join(reasons)
    else:
        report.kept.append(image.file)


def _shrunk(raw: Path, partition: PlacedPartition, tool: Tool) -> str:
    """Make the file system as large as its partition. Raises ``InputError`` when its files do not fit."""
    was = raw.stat().st_size
    tool(["e2fsck", "-f", "-p", raw.name], raw.parent)
    said = tool(["resize2fs", "-P", raw.name], raw.parent)
    block = _number(tool(["dumpe2fs", "-h", raw.name], raw.parent), r"Block size:\s+(\d+)")
    least = _number(said, r"minimum size of the filesystem: (\d+)") * block
    if least > partition.size:
        raise InputError(
            f"partition {partition.name} has {partition.size} bytes; the vendor's files need {least}",
            hint="make the partition larger in the board file",
        )
    tool(["resize2fs", raw.name, f"{partition.size // 1024}K"], raw.parent)
    with raw.open("r+b") as file:
        file.truncate(partition.size // block * block)
    tool(["e2fsck", "-f", "-n", raw.name], raw.parent)
    return f"made smaller from {was} to {raw.stat().st_size} bytes"


def _split(raw: Path, wish: Wish, report: Rebuilt) -> str:
    """Put our pools into the load script. Raises ``InputError`` unless it loads ax_cmm.ko exactly once."""
    local = raw.parent / "auto_load_all_drv.sh"
    wish.tool(["debugfs", "-R", f"dump {SCRIPT} {local.name}", raw.name], raw.parent)
    if not local.exists() or not local.stat().st_size:
        raise InputError(f"expected {SCRIPT} in the partition mounted at /soc, found none")
    script = local.read_text(encoding="utf-8", errors="surrogateescape")
    edited = loadscript.edited(script, wish.split)
    report.notes["cmmpool"] = f"{_words(loadscript.pools(script))} became {wish.split.cmmpool}"
    _note_modules(raw, wish.tool, report)
    if edited == script:
        return "the pools are those of the board file already"
    local.write_text(edited, encoding="utf-8", errors="surrogateescape")
    requests = raw.parent / "split.debugfs"
    requests.write_text(f"rm {SCRIPT}\nwrite {local.name} {SCRIPT}\nsif {SCRIPT} mode 0100755\n")
    wish.tool(["debugfs", "-w", "-f", requests.name, raw.name], raw.parent)
    wish.tool(["e2fsck", "-f", "-n", raw.name], raw.parent)
    back = raw.parent / "written.sh"
    wish.tool(["debugfs", "-R", f"dump {SCRIPT} {back.name}", raw.name], raw.parent)
    if back.read_bytes() != local.read_bytes():
        raise InputError(f"{SCRIPT} is not what was written into it: is that file system full?")
    return f"cmmpool={wish.split.cmmpool} in {SCRIPT}"


def _words(pools: Iterable[Pool]) -> str:
    return ":".join(f"{pool.name},0x{pool.offset:X},{pool.size}" for pool in pools)


def _note_modules(raw: Path, tool: Tool, report: Rebuilt) -> None:
    """For which kernel the closed modules are; those of two kernels are refused."""
    directory = raw.parent / "modules"
    directory.mkdir()
    tool(["debugfs", "-R", f"rdump {MODULES} {directory.name}", raw.name], raw.parent)
    if any(directory.rglob("*.ko")):
        report.notes["vermagic"] = vermagic.wanted(vermagic.read_all(directory))


def _check_kernel(package: Package, files: Mapping[str, Path], report: Rebuilt) -> None:
    """The kernel that is kept is the one the modules are for. Raises ``InputError``."""
    if "vermagic" not in report.notes:
        return
    release = report.notes["vermagic"].partition(" ")[0]
    for image in package.project.images:
        if image.kind is Kind.CODE and image.block == "kernel" and image.file:
            found = _BANNER.search(files[image.file].read_bytes())
            if found and found[1].decode("latin-1") != release:
                raise InputError(
                    f"{image.file} is Linux {found[1].decode('latin-1')}, soc's modules are for {release}",
                    place=Place(str(package.path)),
                )


def _environment(wish: Wish) -> bytes:
    return uboot_env.make(uboot_env.Environment({"bootargs": wish.bootargs}))


def _index(package: Package, wish: Wish, files: dict[str, Path], work: Path, report: Rebuilt) -> bytes:
    """The index with our table, and an image for the environment."""
    xml = axera_xml.with_table(package.xml, consumers.axp(wish.table), package.xml_name)
    name = wish.table.holding("env").name
    if any(image.block == name and image.kind is Kind.CODE for image in package.project.images):
        return xml
    files["env.bin"] = work / "env.bin"
    files["env.bin"].write_bytes(_environment(wish))
    report.changed["env.bin"] = "added: bootargs of the board file"
    image = Image("ENV", Kind.CODE, "env.bin", name, identifier="ENV", description="bootargs, by boardwright")
    return axera_xml.with_image(xml, image, package.xml_name)


def _updates(
    package: Package, xml: bytes, files: Mapping[str, Path], wish: Wish, updates: Path, report: Rebuilt
) -> None:
    """The files that U-Boot updates from, under the names it looks for, and what to type."""
    updates.mkdir()
    (updates / package.xml_name).write_bytes(xml)
    names = {block: name for name, block in consumers.updates(wish.table).items()}
    for image in axera_xml.parse(xml).images:
        if image.kind is Kind.CODE and image.file and (name := names.get(image.block or "")):
            shutil.copyfile(files[image.file], updates / name)
    (updates / "bootargs.txt").write_text(f"setenv bootargs '{wish.bootargs}'\nsaveenv\n")
    for path in sorted(updates.iterdir()):
        report.files[f"{updates.name}/{path.name}"] = _digest(path)


def _unpacked(source: Path, target: Path) -> None:
    """A file system image, out of a sparse one if it is that."""
    with source.open("rb") as file, target.open("xb") as made:
        start = file.read(sparse.HEADER_SIZE)
        file.seek(0)
        if sparse.is_sparse(start):
            sparse.unpack(file, made, source.name)
        else:
            shutil.copyfileobj(file, made)


def _packed(source: Path, target: Path) -> None:
    with source.open("rb") as file, target.open("wb") as made:
        sparse.pack(file, made)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise InputError(f"expected {pattern!r} in what e2fsprogs says, found {text.strip()[-200:]!r}")
    return int(found[1])
