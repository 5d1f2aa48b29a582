"""The partition table: written by sfdisk with identifiers that are given, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .tooling import Fault, run

SECTOR = 512
ENTRIES = 32 * SECTOR


def make(image: Path, layout: dict[str, Any]) -> None:
    """Protective MBR, GPT and its backup."""
    head = f"label: gpt\nlabel-id: {layout['disk-guid']}\nunit: sectors\nfirst-lba: 34\n"
    lines = "".join(f"{_line(p)}\n" for p in layout["partitions"])
    run(
        ["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "--wipe", "never", str(image)],
        given=head + lines,
    )


def _line(partition: dict[str, Any]) -> str:
    text = (
        f"{partition['number']}: start={partition['offset'] // SECTOR}, size={partition['size'] // SECTOR}, "
        f'type={partition["type"]}, uuid={partition["guid"]}, name="{partition["name"]}"'
    )
    return text + (f', attrs="{_attributes(partition)}"' if partition["attributes"] else "")


def _attributes(partition: dict[str, Any]) -> str:
    """As sfdisk writes them: names for the bits of UEFI 2.10 table 5.8, GUID:n for those of the type."""
    names = {0: "RequiredPartition", 1: "NoBlockIOProtocol", 2: "LegacyBIOSBootable"}
    return ",".join(names.get(bit, f"GUID:{bit}") for bit in partition["attributes"])


def check(image: Path, layout: dict[str, Any]) -> None:
    """sfdisk finds no fault, the table is the layout, and the backup is its copy. Raises Fault."""
    said = run(["sfdisk", "--verify", str(image)])
    listing = run(["sfdisk", "--json", str(image)])
    if "No errors detected" not in said or not listing.startswith("{"):
        raise Fault(f"sfdisk finds the partition table of {image.name} damaged:\n{said.strip()}")
    table = json.loads(listing)["partitiontable"]
    expected = [("gpt", layout["disk-guid"].upper()), *map(_expected, layout["partitions"])]
    found = [(table["label"], table["id"].upper()), *map(_found, table.get("partitions", []))]
    if found != expected:
        raise Fault(f"the partition table of {image.name} is\n{found}\nwhere the layout has\n{expected}")
    with image.open("rb") as file:
        file.seek(2 * SECTOR)
        primary = file.read(ENTRIES)
        file.seek(layout["size"] - SECTOR - ENTRIES)
        if file.read(ENTRIES) != primary or file.read(8) != b"EFI PART":
            raise Fault(f"the backup partition table of {image.name} is not a copy of the first")


def _expected(partition: dict[str, Any]) -> tuple[Any, ...]:
    sectors = partition["offset"] // SECTOR, partition["size"] // SECTOR
    attributes = _attributes(partition).split(",") if partition["attributes"] else []
    return (*sectors, partition["type"].upper(), partition["guid"].upper(), partition["name"], attributes)


def _found(partition: dict[str, Any]) -> tuple[Any, ...]:
    attributes = partition.get("attrs", "").replace(",", " ").split()
    sectors = partition["start"], partition["size"]
    return (*sectors, partition["type"].upper(), partition["uuid"].upper(), partition.get("name"), attributes)
