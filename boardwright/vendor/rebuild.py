"""A vendor's ``.axp`` with our root file system, our layout and our split of memory; the rest is kept.

Kept, byte for byte: U-Boot and its backup, kernel, device tree, TF-A, OP-TEE, logo, and what the flash
loader needs. Changed: the root file system; in the file system of ``/soc`` one value, ``cmmpool=`` of the
load script; file systems larger than their new partition, which are made smaller when what is in them fits;
``bootargs`` of an environment; the index's partition table. Added: the user's models, where a partition is
mounted over their path, and U-Boot's environment when it is missing, since the bootargs compiled into the
vendor's U-Boot name the shipped layout. That an environment of ``bootargs`` alone serves is
inferred (U-Boot sets the rest at each boot, ``cmd/axera/setup_boot``), and no board has seen such a
package.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.build.digest import of_file
from boardwright.errors import BoardwrightError, InputError, Place, ProductError
from boardwright.layout import consumers, loadscript
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Pool, Split
from boardwright.vendor import axdl_job, axera_package, axera_xml, ext4files, sparse, uboot_env, vermagic
from boardwright.vendor.axera_package import Package
from boardwright.vendor.axera_xml import Image, Kind
from boardwright.vendor.ext4files import Tool

SCRIPT = "/scripts/auto_load_all_drv.sh"
"""Below ``/soc`` (SDK, rootfs/Makefile, which puts ``cmmpool=`` into it)."""
MODULES = "/ko"
_BANNER = re.compile(rb"Linux version (?P<release>\S{1,64}) [^\0\n]{0,400}")
_FLAGS = re.compile(r"#\d+ (?P<words>(?:SMP |PREEMPT |PREEMPT_RT |PREEMPT_DYNAMIC )*)")
"""``linux_banner`` and ``UTS_VERSION`` (kernel 5.15 ``init/version.c``, ``scripts/mkcompile_h``)."""


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
    files: Mapping[str, Path] = field(default_factory=dict)
    """By partition a tarball of plain files that go into its file system."""


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
    _check(package, wish)
    apart = work / "apart"
    package.extract(apart)
    files = {m.name: apart / m.name for m in package.members if m.name != package.xml_name}
    for image in package.project.images:
        if image.kind is Kind.CODE and image.file:
            _image(image, _placed(wish.table, image, package), files, wish, work, report)
        elif image.file:
            report.kept.append(image.file)
    if unused := files.keys() - {image.file for image in package.project.images}:
        report.notes["left out"] = f"{', '.join(sorted(unused))}: no image of the index names them"
    _check_kernel(package, files, report)
    xml = _index(package, wish, files, work, report)
    axera_package.make_raw(target, xml, files, package.xml_name)
    _check_flashable(target)
    _updates(package, xml, files, wish, updates, report)
    report.kept = list(dict.fromkeys(report.kept))
    return report


def _check(package: Package, wish: Wish) -> None:
    """The package is for this layout. Raises ``InputError``."""
    place = Place(str(package.path))
    images = [image for image in package.project.images if image.kind is Kind.CODE]
    names = [str(image.block) for image in images]
    needed = [wish.table.holding(contents).name for contents in ("uboot", "kernel", "dtb", "atf", "rootfs")]
    for wanted in [*needed, _soc(wish.table).name, *wish.files]:
        if wanted not in names:
            holds = wanted in wish.files
            what = ", into which models of local.yaml go" if holds else ""
            raise InputError(
                f"expected an image for partition {wanted}{what}, found {', '.join(sorted(names))}",
                place=place,
                hint="leave `models` out, and copy them there on the running board" if holds else None,
            )
    axdl_job.table_record(consumers.axp(wish.table))
    kinds = {partition.name: partition.filesystem for partition in wish.table.partitions}
    for first, second in itertools.combinations(images, 2):
        both = f"{first.name} ({first.file}) and {second.name} ({second.file})"
        if first.block == second.block:
            raise InputError(f"expected one image for partition {first.block}, found {both}", place=place)
        if first.file == second.file and kinds.get(str(first.block)) == "ext4":
            raise InputError(f"expected a file for each file system, found one for {both}", place=place)
    for bad in (finding for finding in package.verify() if not finding.good):
        # A partition that grows makes room; whether the new one is large enough is asked below.
        if "does not fit" not in bad.text:
            raise InputError(f"{bad.member}: {bad.text}", place=place)


def _check_flashable(made: Path) -> None:
    """The flash loader would take the new package; it is gone again when not. Raises ``InputError``."""
    try:
        with Package(made) as package:
            axdl_job.prepare(package)
    except BoardwrightError:
        made.unlink()
        raise


def _soc(table: Table) -> PlacedPartition:
    """Where the load script is. Raises ``InputError``."""
    found = table.mounted_over("/soc")
    if found.mount != "/soc":
        raise InputError(
            "expected a partition mounted at /soc, whose load script names the CMM pools, found none",
            hint="the vendor's modules and libraries are there: add it to the board file",
        )
    return found


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
        report.changed[image.file] = _into_environment(files[image.file], wish)
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
    before = of_file(raw)
    try:
        reasons = _changed(raw, partition, wish, report)
    except ProductError as error:
        raise InputError(
            f"{image.file} for partition {partition.name}: {error.message}",
            hint="a file system of the vendor's that e2fsprogs cannot work with",
        ) from error
    if reasons and of_file(raw) != before:
        _packed(raw, files[image.file])
        report.changed[image.file] = "; ".join(reasons)
    else:
        report.kept.append(image.file)


def _changed(raw: Path, partition: PlacedPartition, wish: Wish, report: Rebuilt) -> list[str]:
    """What was done to a file system of the vendor's. Raises ``ProductError`` where a tool gives up."""
    reasons = []
    if raw.stat().st_size > partition.size:
        reasons.append(ext4files.shrunk(raw, partition, wish.tool))
    if partition.mount == "/soc":
        reasons.append(_split(raw, wish, report))
    if tar := wish.files.get(partition.name):
        reasons.append(ext4files.filled(raw, partition, tar, wish.tool))
    return reasons


def _split(raw: Path, wish: Wish, report: Rebuilt) -> str:
    """Put our pools into the load script. Raises ``InputError`` unless it loads ax_cmm.ko exactly once."""
    local = raw.parent / "auto_load_all_drv.sh"
    wish.tool(["debugfs", "-R", f"dump {SCRIPT} {local.name}", raw.name], raw.parent)
    if not local.exists() or not local.stat().st_size:
        raise InputError(f"expected {SCRIPT} in the partition mounted at /soc, found none")
    script = local.read_bytes().decode("utf-8", "surrogateescape")
    edited = loadscript.edited(script, wish.split)
    report.notes["cmmpool"] = f"{_words(loadscript.pools(script))} became {wish.split.cmmpool}"
    _note_modules(raw, wish.tool, report)
    if edited == script:
        return "the pools are those of the board file already"
    local.write_bytes(edited.encode("utf-8", "surrogateescape"))
    ext4files.put(raw, [ext4files.Added(SCRIPT.removeprefix("/"), local, 0o755)], wish.tool)
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
    """The kernel of the new package is the one the modules are for. Raises ``InputError``."""
    for image in package.project.images:
        if image.kind is Kind.CODE and image.block == "kernel" and image.file:
            found = _BANNER.search(files[image.file].read_bytes())
            said = found[0].decode("latin-1") if found else ""
            report.notes["kernel"] = said.strip() or f"{image.file} names no release: not compared with soc's"
            if found and "vermagic" in report.notes:
                wrong = list(_differences(found["release"].decode("latin-1"), said, report.notes["vermagic"]))
                if wrong:
                    raise InputError(f"{image.file} {'; '.join(wrong)}", place=Place(str(package.path)))


def _differences(release: str, banner: str, magic: str) -> Iterator[str]:
    """What a kernel's banner says otherwise than the modules' vermagic."""
    theirs, *flags = magic.split()
    if release != theirs:
        yield f"is Linux {release}, soc's modules are for {theirs}"
    if words := _FLAGS.search(banner):
        built, wanted = words["words"].lower().split(), [flag.lower() for flag in flags]
        for flag in ("smp", "preempt"):
            if flag in built and flag not in wanted:
                yield f"has {flag.upper()}, soc's modules not ({magic!r})"
            if flag in wanted and flag not in built:
                yield f"is built without {flag.upper()}, soc's modules with it ({magic!r})"


def _environment(wish: Wish) -> bytes:
    return uboot_env.make(uboot_env.Environment({"bootargs": wish.bootargs}))


def _into_environment(path: Path, wish: Wish) -> str:
    """Change ``bootargs`` of the vendor's environment, or make one where it has none that U-Boot takes."""
    try:
        found = uboot_env.parse(path.read_bytes()[: uboot_env.SIZE])
    except BoardwrightError as error:
        path.write_bytes(_environment(wish))
        return f"bootargs of the board file alone: the vendor's is none ({error.message})"
    path.write_bytes(uboot_env.make(uboot_env.edited(found, {"bootargs": wish.bootargs})))
    others = [name for name in found.variables if name != "bootargs"]
    return f"bootargs of the board file; kept: {', '.join(others) or 'nothing else is there'}"


def _index(package: Package, wish: Wish, files: dict[str, Path], work: Path, report: Rebuilt) -> bytes:
    """The index with our table, and an image for the environment."""
    xml = axera_xml.with_table(package.xml, consumers.axp(wish.table), package.xml_name)
    name = wish.table.holding("env").name
    if any(image.block == name and image.kind is Kind.CODE for image in package.project.images):
        return xml
    taken = {image.name for image in package.project.images} | {name.partition(".")[0] for name in files}
    new = next(one for one in ("env", "ENV", "boardwright-env") if not {one, one.upper()} & taken)
    file = f"{new}.bin"
    files[file] = work / file
    files[file].write_bytes(_environment(wish))
    report.changed[file] = "added: bootargs of the board file"
    image = Image(
        new.upper(), Kind.CODE, file, name, identifier=new.upper(), description="bootargs, by boardwright"
    )
    return axera_xml.with_image(xml, image, package.xml_name)


def _updates(
    package: Package, xml: bytes, files: Mapping[str, Path], wish: Wish, updates: Path, report: Rebuilt
) -> None:
    """The files that U-Boot updates from, under the names it looks for, and what to type."""
    updates.mkdir()
    index = Path(package.xml_name).name
    # U-Boot looks for AX650X*.xml (U-Boot 2020.04 of the SDK, cmd/axera/sd_update).
    (updates / (index if index.startswith("AX650X") else f"AX650X_{index}")).write_bytes(xml)
    names = {block: name for name, block in consumers.updates(wish.table).items()}
    for image in axera_xml.parse(xml).images:
        if image.kind is Kind.CODE and image.file and (name := names.get(image.block or "")):
            shutil.copyfile(files[image.file], updates / name)
    (updates / "bootargs.txt").write_text(f"setenv bootargs '{wish.bootargs}'\nsaveenv\n")
    for path in sorted(updates.iterdir()):
        report.files[f"{updates.name}/{path.name}"] = of_file(path)


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
