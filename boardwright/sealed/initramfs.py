"""A small initramfs, made without running a program of the board's: busybox, some modules, one script.

``python3 initramfs.py --modules DIR --busybox FILE --init FILE --out FILE MODULE...`` where DIR holds
``modules.dep`` and ``modules.builtin``. The archive is cpio "newc" (kernel
``Documentation/driver-api/early-userspace/buffer-format.rst``), all times 0. Standard library only.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


class Fault(Exception):
    """A module that does not exist in this kernel."""


@dataclass(frozen=True)
class Modules:
    """A kernel's modules by name: file (relative to ``directory``), names it needs, built-in names."""

    directory: Path
    files: Mapping[str, str]
    needs: Mapping[str, tuple[str, ...]]
    """What must be loaded before, soft dependencies included; the deepest need comes last."""
    builtin: frozenset[str]


def module_name(path: str) -> str:
    """``kernel/drivers/virtio/virtio-blk.ko.xz`` to ``virtio_blk``."""
    return re.sub(r"\.ko(\.\w+)?$", "", path.rsplit("/", 1)[-1]).replace("-", "_")


def read_modules(directory: Path) -> Modules:
    """Read what depmod wrote. Raises ``OSError``."""
    files: dict[str, str] = {}
    needs: dict[str, tuple[str, ...]] = {}
    for line in (directory / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        files[module_name(path)] = path
        needs[module_name(path)] = tuple(module_name(other) for other in others.split())
    builtin = (directory / "modules.builtin").read_text().splitlines()
    for name, before in _soft_needs(directory, files).items():
        if name in needs:
            needs[name] = (*needs[name], *before)
    return Modules(directory, files, needs, frozenset(module_name(path) for path in builtin))


def _soft_needs(directory: Path, files: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What modules ask for by alias, such as ext4 for ``crypto-crc32c``: no modprobe answers in here.

    An alias nobody has is a need the kernel meets itself, or does without.
    """
    aliases: dict[str, list[str]] = {}
    for line in (directory / "modules.alias").read_text().splitlines():
        if match := re.fullmatch(r"alias (\S+) (\S+)", line):
            aliases.setdefault(match[1].replace("-", "_"), []).append(match[2])
    soft: dict[str, tuple[str, ...]] = {}
    for line in (directory / "modules.softdep").read_text().splitlines():
        if match := re.match(r"softdep (\S+) pre: ((?:(?!post:)\S+ ?)+)", line):
            asked = [name.replace("-", "_") for name in match[2].split()]
            found = [name for one in asked for name in ([one] if one in files else aliases.get(one, []))]
            soft[match[1]] = (*soft.get(match[1], ()), *(name for name in found if name in files))
    return soft


def load_order(modules: Modules, wanted: Iterable[str]) -> list[str]:
    """File paths of ``wanted`` and all they need, each after what it needs; built-in ones are left out.

    Raises :class:`Fault` naming every module the kernel lacks.
    """
    order: dict[str, None] = {}
    names = [asked.replace("-", "_") for asked in wanted]
    missing = [name for name in names if name not in modules.files and name not in modules.builtin]
    if missing:
        raise Fault(f"the kernel has neither module nor built-in {', '.join(missing)}")

    def visit(name: str, above: tuple[str, ...] = ()) -> None:
        if name in modules.builtin or name in above or modules.files[name] in order:
            return
        for needed in reversed(modules.needs[name]):
            visit(needed, (*above, name))
        order[modules.files[name]] = None

    for name in names:
        visit(name)
    return list(order)


def plain(path: Path) -> bytes:
    """A module's bytes, decompressed."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    return gzip.decompress(data) if path.suffix == ".gz" else data


class Cpio:
    """A newc archive in memory. Owner 0:0, times 0, inode numbers in order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        """Add a name with its full mode (type bits included)."""
        self._count += 1
        raw = name.encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers)
        self._parts += [_padded(header + raw), _padded(data)]

    def done(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def archive(modules: Modules, order: list[str], busybox: bytes, init: bytes) -> bytes:
    """The initramfs, uncompressed."""
    cpio = Cpio()
    for name in ("bin", "dev", "modules", "proc", "root", "sys"):
        cpio.add(name, 0o040755)
    cpio.add("bin/busybox", 0o100755, busybox)
    cpio.add("init", 0o100755, init)
    names = [f"{number:03d}-{module_name(path)}.ko" for number, path in enumerate(order)]
    cpio.add("modules.order", 0o100644, "".join(f"{name}\n" for name in names).encode())
    for name, path in zip(names, order, strict=True):
        cpio.add(f"modules/{name}", 0o100644, plain(modules.directory / path))
    return cpio.done()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", type=Path, required=True)
    parser.add_argument("--busybox", type=Path, required=True)
    parser.add_argument("--init", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("wanted", nargs="+")
    asked = parser.parse_args(arguments)
    modules = read_modules(asked.modules)
    try:
        order = load_order(modules, asked.wanted)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    made = archive(modules, order, asked.busybox.read_bytes(), asked.init.read_bytes())
    asked.out.write_bytes(gzip.compress(made, 6, mtime=0))
    sizes = f"{len(made) / 1e6:.1f} MB, compressed {asked.out.stat().st_size / 1e6:.1f} MB"
    print(f"initramfs: {len(order)} modules, {sizes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
