"""The disks of this host, and why one may not be written.

Pure functions over a root directory: ``sys/block``, ``sys/dev/block``, ``proc/self/mountinfo``,
``proc/swaps`` and, where udev runs, ``run/udev/data``. The names are those of the kernel's
Documentation/ABI/stable/sysfs-block; ``size`` there counts 512-byte sectors whatever the disk's own are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
_NO_DISK = re.compile(r"(ram|zram|dm-|md|sr|fd|mtdblock)\d|mmcblk\d+(boot\d|rpmb|gp\d)")
"""Not what an image is written to: memory, volumes over other disks, disc drives, an eMMC's side areas."""
_MEMBERS = {"LVM2_member": "LVM", "crypto_LUKS": "LUKS", "linux_raid_member": "md RAID"}
"""ID_FS_TYPE of udev (libblkid's names) for what is part of something larger."""


@dataclass(frozen=True, slots=True)
class Device:
    """A whole disk; ``size`` in bytes, ``number`` is ``major:minor``."""

    name: str
    number: str
    size: int
    model: str = ""
    serial: str = ""
    bus: str = ""
    removable: bool = False
    diskseq: str = ""
    """Counts up whenever a medium appears; empty before kernel 5.15."""
    contents: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path("/dev") / self.name

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """What must not change between the confirmation and the first byte."""
        return self.number, self.serial, self.size, self.diskseq


@dataclass(frozen=True, slots=True)
class _InUse:
    mounts: tuple[tuple[str, str, str], ...]
    """Number, source and mount point of every mount."""
    swaps: frozenset[str]
    """Kernel names, such as ``sda2``."""


def found(root: Path = Path("/"), needed: int = 0) -> list[Device]:
    """Every disk, those that may not be written too; ``needed``: the size of the image in bytes."""
    used = _in_use(root)
    directories = sorted((root / "sys/block").iterdir()) if (root / "sys/block").is_dir() else []
    return [
        _device(root, directory, used, needed)
        for directory in directories
        if not _NO_DISK.match(directory.name) and _size(directory)
    ]


def _device(root: Path, directory: Path, used: _InUse, needed: int) -> Device:
    size = _size(directory)
    properties = [_udev(root, part) for part in (directory, *_partitions(directory))]
    return Device(
        name=directory.name,
        number=_text(directory / "dev"),
        size=size,
        model=_text(directory / "device/model") or _text(directory / "device/name"),
        serial=_serial(root, directory, properties[0]),
        bus=_bus(directory, properties[0]),
        removable=_text(directory / "removable") == "1",
        diskseq=_text(directory / "diskseq"),
        contents=tuple(_contents(directory, properties)),
        refusals=tuple(dict.fromkeys(_refusals(root, directory, used, properties, size, needed))),
    )


def _refusals(
    root: Path, directory: Path, used: _InUse, properties: list[dict[str, str]], size: int, needed: int
) -> Iterator[str]:
    system = _root_chain(root, used)
    for part in (directory, *_partitions(directory)):
        if part.name in system:
            yield "it carries the running system"
        for layer in (part, *_above(root, part)):
            through = "" if layer == part else f" through {layer.name}"
            for point in _mounted_at(used, layer):
                yield f"{part.name} is mounted{through} at {point}"
            if layer.name in used.swaps:
                yield f"{part.name} is swap space in use{through}"
        for holder in _listed(part / "holders"):
            yield f"{part.name} is held by {_volume(root, holder)}"
    for values in properties:
        if member := _MEMBERS.get(values.get("ID_FS_TYPE", "")):
            yield f"it holds a part of {member} (wipefs removes the signature if that is meant)"
    if _text(directory / "ro") == "1":
        yield "it is read-only"
    if size < needed:
        yield f"it is too small: {size} bytes, the image has {needed}"


def _in_use(root: Path) -> _InUse:
    mounts = []
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        head, tail = fields.split(), rest.split()
        if len(head) > 4 and len(tail) > 1:
            mounts.append((head[2], tail[1], _unescaped(head[4])))
    lines = [line.split() for line in _text(root / "proc/swaps").splitlines()[1:]]
    swaps = {_kernel_name(root, fields[0]) for fields in lines if fields}
    return _InUse(tuple(mounts), frozenset(swaps))


def _unescaped(text: str) -> str:
    """proc(5): blanks and backslashes are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _kernel_name(root: Path, source: str) -> str:
    """``/dev/mapper/x`` is a link to ``../dm-0`` on most systems."""
    return (root / source.lstrip("/")).resolve().name if source.startswith("/dev/") else source


def _mounted_at(used: _InUse, directory: Path) -> Iterator[str]:
    number = _text(directory / "dev")
    for mounted, source, point in used.mounts:
        # Btrfs and others have a device number of their own; their source still names the disk.
        if mounted == number or (Path(source).name == directory.name and source.startswith("/dev/")):
            yield point


def _root_chain(root: Path, used: _InUse) -> set[str]:
    """The disks, partitions and volumes below the file systems a running system cannot lose."""
    names: set[str] = set()
    for number, source, point in used.mounts:
        if point not in ("/", "/usr", "/boot", "/boot/efi", "/boot/firmware"):
            continue
        directory = root / "sys/dev/block" / number
        if not directory.exists():
            directory = root / "sys/class/block" / _kernel_name(root, source)
        if directory.exists():
            names |= _below(directory.resolve())
    return names


def _below(directory: Path) -> set[str]:
    names = {directory.name}
    if (directory / "partition").exists():
        names |= {directory.parent.name}
    for slave in _listed(directory / "slaves"):
        names |= _below(slave.resolve())
    return names


def _above(root: Path, directory: Path) -> Iterator[Path]:
    """The volumes built on a disk or partition, and those on them."""
    for holder in _listed(directory / "holders"):
        volume = root / "sys/block" / holder.name
        yield volume
        yield from _above(root, volume)


def _volume(root: Path, holder: Path) -> str:
    directory = root / "sys/block" / holder.name
    uuid, name = _text(directory / "dm/uuid"), _text(directory / "dm/name")
    kind = "md RAID" if (directory / "md").exists() else uuid.partition("-")[0] or "device mapper"
    return f"{kind} {name or holder.name}" if kind not in ("CRYPT",) else f"LUKS {name}"


def _contents(directory: Path, properties: list[dict[str, str]]) -> Iterator[str]:
    """The partition table, and for each part its file system and label as far as udev knows them."""
    if backing := _text(directory / "loop/backing_file"):
        yield f"the file {backing}"
    if table := properties[0].get("ID_PART_TABLE_TYPE"):
        yield f"{table} partition table"
    names = [directory.name, *(part.name for part in _partitions(directory))]
    for name, values in zip(names, properties, strict=True):
        label = values.get("ID_FS_LABEL") or values.get("ID_PART_ENTRY_NAME", "")
        if kind := values.get("ID_FS_TYPE", ""):
            yield f"{name}: {kind} {label}".rstrip()
        elif name != directory.name:
            yield f"{name}: {label or 'unknown'}"


def _serial(root: Path, directory: Path, properties: dict[str, str]) -> str:
    """The disk's own serial number; of a USB disk, the one its USB descriptor gives."""
    known = properties.get("ID_SERIAL_SHORT") or _text(directory / "device/serial")
    if known := known or _text(directory / "serial"):
        return known
    resolved = directory.resolve()
    for above in resolved.parents:
        if above == root.resolve():
            break
        if (above / "idVendor").exists():
            return _text(above / "serial")
    return ""


def _bus(directory: Path, properties: dict[str, str]) -> str:
    kind = _text(directory / "device/type")
    if directory.name.startswith("mmcblk"):
        return {"SD": "sd", "MMC": "emmc"}.get(kind, "mmc")
    for prefix, bus in (("nvme", "nvme"), ("vd", "virtio"), ("loop", "loop")):
        if directory.name.startswith(prefix):
            return bus
    resolved = str(directory.resolve())
    return properties.get("ID_BUS", "") or (
        "usb" if "/usb" in resolved else "ata" if "/ata" in resolved else ""
    )


def _udev(root: Path, directory: Path) -> dict[str, str]:
    """systemd's database, lines ``E:KEY=value``; empty where udev does not run."""
    lines = _text(root / "run/udev/data" / f"b{_text(directory / 'dev')}").splitlines()
    return dict(line[2:].split("=", 1) for line in lines if line.startswith("E:") and "=" in line)


def _partitions(directory: Path) -> list[Path]:
    return [path for path in _listed(directory) if (path / "partition").exists()]


def _listed(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _size(directory: Path) -> int:
    text = _text(directory / "size")
    return int(text) * SECTOR if text.isdecimal() else 0


def _text(path: Path) -> str:
    """What a file of the kernel's says; a disk may be pulled out while it is looked at."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""
