"""Whether closed kernel modules load into a kernel: their vermagic, and what kmod does not compare.

``insmod`` refuses a module whose ``vermagic`` string differs from the kernel's (kernel 5.15
``kernel/module.c``, ``check_modinfo``; ``include/linux/vermagic.h``). Without ``CONFIG_MODVERSIONS``
nothing else is compared, so an option that changes the layout of the kernel's structures makes a module
load and then crash: those are compared here by the configuration. The vendor's kernel is 5.15.73 with
PREEMPT and SMP and without MODVERSIONS and MODULE_SIG (``axera_AX650A_pipro_box_defconfig``); its defconfig
has LOCALVERSION_AUTO, which adds a suffix in a git tree, and then every closed module is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError, Place

_ELF = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_AARCH64 = 183
_LARGEST = 64 * 2**20
"""Bytes of a module; AXERA's largest has a few."""
_SECTIONS = 10_000

LAYOUT = (
    "KASAN", "KMSAN", "DEBUG_SPINLOCK", "DEBUG_MUTEXES", "LOCKDEP", "DEBUG_LOCK_ALLOC", "DEBUG_RT_MUTEXES",
    "SLUB_DEBUG_ON", "DEBUG_OBJECTS", "PREEMPT_RT", "NUMA", "RANDSTRUCT_FULL", "GCC_PLUGIN_RANDSTRUCT",
)  # fmt: skip
"""Options that change structures which every module has in it."""
_NEEDED = {"AX_OSAL": "y", "MODULES": "y"}
"""What the closed modules are written against (that every one needs AX_OSAL is inferred)."""


@dataclass(frozen=True, slots=True)
class Module:
    """``vermagic``: as it stands. ``versions``: whether it carries CRCs of symbols (MODVERSIONS)."""

    name: str
    vermagic: str
    versions: bool

    @property
    def release(self) -> str:
        return self.vermagic.partition(" ")[0]

    @property
    def flags(self) -> frozenset[str]:
        return frozenset(self.vermagic.split()[1:])


def read(data: bytes, name: str) -> Module:
    """A module's ``.modinfo``. Raises ``InputError`` for what is no arm64 module, or says no vermagic."""
    place = Place(name)
    sections = _sections(data, place)
    if ".modinfo" not in sections:
        raise InputError("expected a section .modinfo, found none: this is no kernel module", place=place)
    pairs = (entry.decode("latin-1").partition("=") for entry in sections[".modinfo"].split(b"\0") if entry)
    found = [value for key, _, value in pairs if key == "vermagic"]
    if len(found) != 1 or not found[0].strip():
        raise InputError(f"expected one vermagic in .modinfo, found {len(found)}", place=place)
    return Module(name, found[0].strip(), "__versions" in sections)


def read_all(directory: Path) -> list[Module]:
    """Every file ``*.ko`` below a directory, sorted by name. Raises ``InputError`` when there is none."""
    paths = sorted(path for path in directory.rglob("*.ko") if path.is_file())
    if not paths:
        raise InputError("expected kernel modules (*.ko), found none", place=Place(str(directory)))
    found = []
    for path in paths:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"expected a module of {_LARGEST} bytes at most", place=Place(str(path)))
        found.append(read(path.read_bytes(), str(path)))
    return found


def wanted(modules: Iterable[Module]) -> str:
    """The vermagic that all modules have. Raises ``InputError`` when they are of two kernels."""
    by_magic: dict[str, list[str]] = {}
    for module in modules:
        by_magic.setdefault(module.vermagic, []).append(Path(module.name).name)
    if len(by_magic) != 1:
        kinds = "; ".join(f"{magic!r}: {', '.join(names[:3])}" for magic, names in sorted(by_magic.items()))
        raise InputError(f"expected modules of one kernel, found {len(by_magic)}: {kinds}")
    return next(iter(by_magic))


def of_kernel(release: str, config: Mapping[str, str]) -> str:
    """The vermagic that a kernel of this configuration compares with (``include/linux/vermagic.h``, arm64).

    ``config``: values by option without ``CONFIG_``; an option that is not there is off.
    """

    def on(option: str) -> bool:
        return config.get(option, "n") == "y"

    words = [release]
    words += ["SMP"] if on("SMP") else []
    # 5.15: PREEMPT_RT has a word of its own.
    words += ["preempt_rt"] if on("PREEMPT_RT") else ["preempt"] if on("PREEMPT") else []
    words += ["mod_unload"] if on("MODULE_UNLOAD") else []
    words += ["modversions"] if on("MODVERSIONS") else []
    return " ".join([*words, "aarch64"])


def faults(
    modules: Iterable[Module],
    release: str,
    config: Mapping[str, str],
    vendor: Mapping[str, str] | None = None,
) -> list[str]:
    """Why the modules would not load into this kernel, or load and crash; each names what differs.

    ``vendor``: the configuration the modules were built with (``/proc/config.gz`` of the board: the vendor's
    kernel has IKCONFIG_PROC); without it only vermagic and the options that the modules need are compared.
    """
    listed = list(modules)
    magic, own = wanted(listed), of_kernel(release, config)
    found = []
    if magic != own:
        theirs, ours = magic.split(), own.split()
        if theirs[0] != ours[0]:
            suffix = ours[0].removeprefix(theirs[0])
            hint = (
                f": the suffix {suffix!r} is LOCALVERSION's or that of a git tree (LOCALVERSION_AUTO)"
                if ours[0].startswith(theirs[0])
                else ""
            )
            found.append(f"the modules are for release {theirs[0]!r}, the kernel is {ours[0]!r}{hint}")
        missing, added = set(theirs[1:]) - set(ours[1:]), set(ours[1:]) - set(theirs[1:])
        if missing or added:
            words = [f"the modules have {word!r}, the kernel not" for word in sorted(missing)]
            words += [f"the kernel has {word!r}, the modules not" for word in sorted(added)]
            found.append(f"vermagic: {' and '.join(words)}")
        if not found:
            found.append(f"vermagic: the modules have {magic!r}, the kernel {own!r}")
    if config.get("MODVERSIONS") == "y" and not all(module.versions for module in listed):
        found.append("CONFIG_MODVERSIONS=y: the modules carry no symbol versions to compare")
    if config.get("MODULE_SIG_FORCE") == "y":
        found.append("CONFIG_MODULE_SIG_FORCE=y: the modules are signed by nobody")
    found += [
        f"CONFIG_{option}: expected {value}, found {config.get(option, 'n')}"
        for option, value in _NEEDED.items()
        if config.get(option, "n") != value
    ]
    if vendor is not None:
        found += [
            f"CONFIG_{option}: the modules were built with {vendor.get(option, 'n')}, the kernel has "
            f"{config.get(option, 'n')}: structures differ, and a module would load and crash"
            for option in LAYOUT
            if vendor.get(option, "n") != config.get(option, "n")
        ]
    return found


def check(
    modules: Iterable[Module],
    release: str,
    config: Mapping[str, str],
    vendor: Mapping[str, str] | None = None,
) -> None:
    """Raises ``InputError`` with everything that differs."""
    if found := faults(modules, release, config, vendor):
        raise InputError(
            "the vendor's closed modules do not fit this kernel: " + "; ".join(found),
            hint="build outside a git tree with LOCALVERSION empty, from the configuration of the same SDK",
        )


def parse_config(text: str) -> dict[str, str]:
    """A kernel's ``.config``: values by option without ``CONFIG_``; what is not set is left out."""
    found = {}
    for line in text.splitlines():
        option, equals, value = line.partition("=")
        if equals and option.startswith("CONFIG_"):
            found[option.removeprefix("CONFIG_")] = value.strip().strip('"')
    return found


def _sections(data: bytes, place: Place) -> dict[str, bytes]:
    """Sections by name, of a relocatable arm64 ELF file (System V ABI, gABI 4.1)."""
    if data[:4] != _ELF or len(data) < _HEADER.size or data[4:6] != b"\x02\x01":
        raise InputError("expected a 64-bit little-endian ELF file", place=place)
    fields = _HEADER.unpack_from(data)
    machine, at, size, count, names = fields[2], fields[6], fields[11], fields[12], fields[13]
    if machine != _AARCH64:
        raise InputError(f"expected machine {_AARCH64} (AArch64), found {machine}", place=place)
    if size != _SECTION.size or not 0 < count <= _SECTIONS or at + size * count > len(data) or names >= count:
        raise InputError(
            f"expected section headers inside the file of {len(data)} bytes, found {count} at byte {at}",
            place=place,
        )
    rows = [_SECTION.unpack_from(data, at + size * index) for index in range(count)]
    strings = _bytes_of(data, rows[names], place)
    found: dict[str, bytes] = {}
    for row in rows:
        end = strings.find(b"\0", row[0])
        if row[0] >= len(strings) or end < 0:
            raise InputError(f"expected a section's name, found offset {row[0]}", place=place)
        name = strings[row[0] : end].decode("latin-1")
        if name in (".modinfo", "__versions"):
            found[name] = _bytes_of(data, row, place)
    return found


def _bytes_of(data: bytes, row: tuple[int, ...], place: Place) -> bytes:
    offset, size = row[4], row[5]
    if offset + size > len(data):
        raise InputError(
            f"a section ends at byte {offset + size}, the file has {len(data)}: it is cut", place=place
        )
    return data[offset : offset + size]
