"""The rescue stick: Debian's root with the repartitioning program as its first process, on one partition.

``/in/base/root.tar`` and the files of ``/in/repartition`` to ``/out/rescue.img`` and its bmap: an MBR, as a
kernel without an initramfs finds ``root=PARTUUID=<signature>-01`` on it by itself (kernel
``block/early-lookup.c``), and one ext4, which the first start grows to the stick. Run as
``python3 -m sealed.stick``, standard library only.
"""

from __future__ import annotations

import fnmatch
import os
import re
import struct
import sys
from pathlib import Path

from . import bmap, inuse
from .rootfs import PRIVATE_OR_CHANGING
from .tartree import Fault, Tree
from .tooling import Fault as ToolFault
from .tooling import run

START = 2**20
SIZE = 512 * 2**20
PROGRAM = "usr/lib/boardwright/repartition"
INIT = "usr/lib/boardwright/rescue-init"


def main(inputs: Path = Path("/in"), work: Path = Path("/work"), out: Path = Path("/out")) -> int:
    """Exit status of the step; a fault is told on standard error."""
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        with Tree() as tree:
            fill(tree, inputs)
            tree.write(work / "root.tar", epoch)
        image = out / "rescue.img"
        make(image, work / "root.tar", os.environ["LABEL"], os.environ["UUID"], os.environ["SIGNATURE"])
        with image.open("rb") as file:
            view = inuse.Image(file)
            used = [(0, START), *inuse.ext4(view, START)]
            (out / "rescue.bmap").write_text(bmap.write(view, used, int(os.environ.get("JOBS", "1"))))
    except (Fault, ToolFault) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    print(f"rescue.img: root=PARTUUID={os.environ['SIGNATURE']}-01")
    return 0


def fill(tree: Tree, inputs: Path) -> None:
    """Debian's root without what is private or changing, and the program."""
    tree.add_tar(inputs / "base/root.tar")
    unwanted = re.compile("|".join(fnmatch.translate(pattern) for pattern in PRIVATE_OR_CHANGING))
    tree.drop(lambda name: unwanted.match(name) is not None)
    for path in sorted((inputs / "repartition").iterdir()):
        if path.suffix == ".py":
            tree.add_file(f"{PROGRAM}/{path.name}", path.read_bytes())
    tree.add_file(INIT, (inputs / "rescue-init").read_bytes(), 0o755)
    tree.add_file("etc/hostname", b"rescue\n")


def make(image: Path, tar: Path, label: str, uuid: str, signature: str) -> None:
    """The image of the stick."""
    with image.open("xb") as file:
        file.truncate(SIZE)
        file.write(mbr(int(signature, 16), START // 512, (SIZE - START) // 512))
    extended = (
        f"offset={START},root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed={uuid}"
    )
    options = ["-q", "-F", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum_seed,^orphan_file"]
    blocks = str((SIZE - START) // 4096)
    run(["mke2fs", *options, "-U", uuid, "-L", label, "-E", extended, "-d", str(tar), str(image), blocks])
    run(["e2fsck", "-f", "-n", f"{image}?offset={START}"])


def mbr(signature: int, first: int, sectors: int) -> bytes:
    """A master boot record with one Linux partition, by sectors; cylinders are out of range, as is usual."""
    entry = struct.pack("<B3sB3sII", 0, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", first, sectors)
    return struct.pack("<440xIH", signature, 0) + entry + bytes(48) + b"\x55\xaa"


if __name__ == "__main__":
    sys.exit(main())
