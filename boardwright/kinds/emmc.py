"""A board without a partition table: its partitions as files, and the emulated board's eMMC made of them.

What U-Boot reads on the board (environment, header before the kernel) is on the emulated eMMC too, and the
emulator starts from it (boardwright/targets/emmc.py). What only the vendor has is left out: the partitions
of U-Boot, TF-A, OP-TEE, the device tree and the logo are zeros, and stand-ins take the place of ``/soc`` and
``/opt``. A board with the vendor's kernel gets a root of its own, without the modules of ours.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from boardwright.build.step import Download, Input, Output, Step, Text
from boardwright.errors import InputError, Place
from boardwright.image import names
from boardwright.kinds import ax_standin, models
from boardwright.kinds.context import Context, script
from boardwright.layout import bootargs as words
from boardwright.layout import consumers, partitions, split_rules
from boardwright.layout.description import label
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.identifiers import identifier
from boardwright.layout.split import Split
from boardwright.schema.recipe import AxStandinRecipe, ImageRecipe

PARTS, DISK, FOR_VENDOR = "partitions", "emmc", "vendor-parts"
"""Names of the steps."""
STANDIN = "ax-standin"
QEMU_ENVIRONMENT = "tools-qemu"
ROOT_REQUIRES = ("/etc/os-release", "/usr/lib/systemd/systemd", "/etc/fstab")
SPARE = 256 * 2**20
"""Bytes free in the root before it is grown."""
KERNEL_MODULES = "usr/lib/modules/*"
"""Of the kernel that the emulated board boots, in the root's tarball."""
SEALED = ("axera.py", "emmcparts.py", "inuse.py", "root.py", "tartree.py", "tooling.py")
STANDINS = {"/soc": ax_standin.SOC, "/opt": ax_standin.OPT}
"""What the emulated board has where the vendor's files are mounted."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Names of the steps the partitions are made from."""

    kernel: str
    rootfs: str
    standin: str


def is_emmc(context: Context) -> bool:
    """Whether the board's disk has no table of its own."""
    return names.has_no_table(context.board)


def table(context: Context) -> Table:
    return partitions.resolve(context.board.disk, context.board.partitions)


def disk_name(context: Context) -> str:
    return names.image_name(context.board)


def part_file(name: str) -> str:
    """The output that is the contents of a partition."""
    return f"{name}.img"


def steps(context: Context, recipe: ImageRecipe, sources: Sources) -> list[Step]:
    """The partitions as files, the emulated eMMC, and what takes places in a vendor's package."""
    layout = table(context)
    entries = [found for p in layout.partitions if (found := _entry(context, p))]
    names = [entry["name"] for entry in entries]
    title = f"{len(names)} of {len(layout.partitions)} partitions: {', '.join(names)}"
    parts = _parts(context, recipe, sources, PARTS, title, entries)
    offsets = {p.name: p.offset for p in layout.partitions}
    disk = Step(
        name=DISK,
        title=f"the emulated eMMC of {len(layout.partitions)} partitions, without a table",
        script=script("emmc_disk"),
        environment=QEMU_ENVIRONMENT,
        outputs=(disk_name(context),),
        inputs={
            "offsets": Text("".join(f"{offsets[name]} {name}\n" for name in names)),
            **{f"parts/{part_file(name)}": Output(PARTS, part_file(name)) for name in names},
        },
        variables={"SIZE": str(card_size(layout.size)), "DISK": disk_name(context)},
    )
    return [parts, disk, _for_vendor(context, recipe, sources)]


def _parts(
    context: Context, recipe: ImageRecipe, sources: Sources, name: str, title: str,
    entries: list[dict[str, Any]],
) -> Step:  # fmt: skip
    return Step(
        name=name,
        title=title,
        script=script("emmc_parts"),
        environment=recipe.environment,
        outputs=tuple((tar_file if e["kind"] == "tar" else part_file)(e["name"]) for e in entries),
        inputs=_inputs(context, entries, sources),
        epoch=context.lock(context.board.rootfs.recipe).epoch,
        sealed=SEALED,
    )


def _for_vendor(context: Context, recipe: ImageRecipe, sources: Sources) -> Step:
    """The root without modules of a kernel that does not boot there; files for the vendor's partitions."""
    root = _entry(context, table(context).holding("rootfs"))
    assert root is not None
    entries = [root | {"without": [KERNEL_MODULES]}]
    for partition in with_files(context):
        at = f"files/{partition.name}"
        entries.append({"name": partition.name, "size": partition.size, "kind": "tar", "files": at})
    title = "the root for the vendor's kernel"
    return _parts(context, recipe, sources, FOR_VENDOR, title, entries)


def with_files(context: Context) -> list[PlacedPartition]:
    """The vendor's partitions that :data:`FOR_VENDOR` has a tarball of files for."""
    return [p for p in table(context).partitions if p.contents != "rootfs" and _files(context, p)]


def tar_file(name: str) -> str:
    """The output that holds files for a partition of the vendor's."""
    return f"{name}.tar"


def _files(context: Context, partition: PlacedPartition) -> dict[str, Download]:
    """Models that lie in this partition, by path in its file system."""
    if not partition.mount:
        return {}
    layout, at = table(context), partition.mount.rstrip("/")
    return {
        path.removeprefix(f"{at}/"): download
        for path, download in models.wanted(context).items()
        if layout.mounted_over(path) == partition
    }


def card_size(size: int) -> int:
    """Of the emulated card: QEMU's SD cards have a power of two (``hw/sd/sd.c``, ``sd_realize``)."""
    return 1 << (size - 1).bit_length()


def bootargs(context: Context) -> str:
    return words.bootargs(context.board)


def cmmpool(context: Context) -> str:
    return split(context).cmmpool


def split(context: Context) -> Split:
    """Who has which memory. Raises ``InputError`` for a split that cannot be, or none."""
    found = split_rules.resolve(context.board.memory)
    if found is None:
        raise InputError(
            "memory: expected linux, cmm or cmm-for, found none of them",
            place=Place(f"boards/{context.board.board}/board.yaml"),
        )
    return found


def standin(context: Context) -> list[Step]:
    """The steps of the stand-ins."""
    recipe = context.project.recipe(STANDIN)
    assert isinstance(recipe, AxStandinRecipe)
    return ax_standin.steps(context, recipe, cmmpool(context))


def root_words(context: Context) -> dict[str, object]:
    """What templates of the root may use."""
    layout = table(context)
    return {"fstab": consumers.fstab(layout), "fw_env": consumers.fw_env(layout)}


def _entry(context: Context, partition: PlacedPartition) -> dict[str, Any] | None:
    """The entry of ``parts.json`` (boardwright/sealed/emmcparts.py); None where nothing is put."""
    name = partition.name
    entry: dict[str, Any] = {"name": name, "size": partition.size}
    if partition.contents == "kernel":
        return entry | {"kind": "image", "source": "kernel/Image"}
    if partition.contents == "env":
        block = consumers.derive(context.board).environment
        assert block is not None
        packed = base64.b64encode(block.rstrip(b"\0")).decode()
        return entry | {"kind": "bytes", "base64": packed, "length": len(block)}
    if partition.filesystem != "ext4":
        return None
    tar = "rootfs.tar" if partition.contents == "rootfs" else STANDINS.get(partition.mount or "")
    identity = context.identity
    if partition in with_files(context):
        entry["files"] = f"files/{name}"
    return entry | {
        "kind": "ext4",
        "tar": tar,
        "spare": SPARE if partition.contents == "rootfs" else 0,
        "requires": list(ROOT_REQUIRES) if partition.contents == "rootfs" else [],
        "label": label(name, "ext4"),
        "uuid": str(identifier(identity, f"filesystem {name}")),
        "hash-seed": str(identifier(identity, f"hash seed {name}")),
    }


def _inputs(context: Context, entries: list[dict[str, Any]], sources: Sources) -> dict[str, Input]:
    tarballs = {
        "rootfs.tar": Output(sources.rootfs, "rootfs.tar"),
        **{tar: Output(sources.standin, tar) for tar in STANDINS.values()},
    }
    wanted = {entry.get("tar") for entry in entries}
    kernel: dict[str, Input] = {"kernel": Output(sources.kernel)}
    told = {entry["name"] for entry in entries if "files" in entry}
    return {
        "parts.json": Text(json.dumps({"parts": entries}, indent=1, sort_keys=True) + "\n"),
        **(kernel if any(entry["kind"] == "image" for entry in entries) else {}),
        **{tar: output for tar, output in tarballs.items() if tar in wanted},
        **{
            f"files/{partition.name}/{path}": download
            for partition in with_files(context)
            if partition.name in told
            for path, download in _files(context, partition).items()
        },
    }
