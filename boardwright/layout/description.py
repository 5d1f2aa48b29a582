"""``layout.json``: all that the image step needs to know, written by the plan.

The file, as ``boardwright/sealed/image.py`` reads it (offsets and sizes in bytes, sources below ``/in``)::

    {"version": 1, "image": "rock5b.img", "bmap": "rock5b.bmap", "size": …, "disk-guid": …,
     "holes": [{"name", "offset", "size", "source": "loader/idbloader.img" or null}],
     "partitions": [
       {"number", "name", "offset", "size", "type", "guid", "attributes": [2], "label",
        "filesystem": "vfat", "serial", "files": [{"source": "kernel/Image", "target": "Image"}]},
       {…, "filesystem": "ext4", "uuid", "hash-seed", "tar": "rootfs.tar",
        "requires": ["/etc/os-release"], "release": "kernel/release" or null}]}

A source that is a directory is copied with everything below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from boardwright.layout.identifiers import fat_serial, identifier
from boardwright.layout.partitions import PlacedPartition, Table

ROOT_TAR = "rootfs.tar"
_LABEL_BYTES = {"vfat": 11, "ext4": 16}


def partition_guid(identity: str, name: str) -> str:
    """The PARTUUID of a partition, as ``root=PARTUUID=`` takes it."""
    return str(identifier(identity, f"partition {name}"))


def describe(
    table: Table,
    identity: str,
    *,
    board: str,
    boot_files: Mapping[str, str],
    loader: Mapping[str, str],
    requires: Sequence[str] = ("/etc/os-release", "/usr/lib/systemd/systemd"),
    release: str | None = None,
) -> str:
    """The text of ``layout.json``.

    ``boot_files`` maps targets in the boot partition to sources below ``/in``; ``loader`` maps the
    ``contents`` of holes to sources, and holes whose contents it lacks stay zero; ``requires`` are paths
    the root must have; ``release`` is the source that holds the kernel release whose modules it must have.
    """
    boot = {"files": [{"source": s, "target": t} for t, s in sorted(boot_files.items())]}
    root = {"tar": ROOT_TAR, "requires": list(requires), "release": release}
    more: dict[str, dict[str, Any]] = {"boot": boot, "rootfs": root}
    value = {
        "version": 1,
        "image": f"{board}.img",
        "bmap": f"{board}.bmap",
        "size": table.size,
        "disk-guid": str(identifier(identity, "disk")),
        "holes": [
            {"name": h.name, "offset": h.offset, "size": h.size, "source": loader.get(h.contents or "")}
            for h in table.holes
        ],
        "partitions": [_partition(p, identity) | more[p.contents] for p in table.partitions],
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _partition(partition: PlacedPartition, identity: str) -> dict[str, Any]:
    name = partition.name
    common = {
        "number": partition.number,
        "name": name,
        "offset": partition.offset,
        "size": partition.size,
        "type": partition.type_guid,
        "guid": partition_guid(identity, name),
        "attributes": list(partition.attributes),
        "filesystem": partition.filesystem,
        "label": label(name, partition.filesystem),
    }
    if partition.filesystem == "vfat":
        return common | {"serial": fat_serial(identity, f"filesystem {name}")}
    return common | {
        "uuid": str(identifier(identity, f"filesystem {name}")),
        "hash-seed": str(identifier(identity, f"hash seed {name}")),
    }


def label(name: str, filesystem: str) -> str:
    """The file system's label: the partition's name as far as every tool can show it."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[: _LABEL_BYTES[filesystem]] or "data"
    return plain.upper() if filesystem == "vfat" else plain
