"""What a directory with the vendor's AX650 SDK holds of a kernel: source, patches, closed modules.

The SDK has the kernel as the tarball of 5.15.73 and one patch, or as a tree, in ``kernel/linux``; the board's
configuration is ``axera_AX650A_pipro_box_defconfig``. No SDK was at hand when this was written: that
``kernel/linux`` needs nothing beside it (``kernel/osal``, for one) is inferred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import InputError, Place
from boardwright.vendor import vermagic

KERNEL = "kernel/linux"
DEFCONFIG = "axera_AX650A_pipro_box_defconfig"
DEVICE_TREE = "axera/AX650_pipro_box.dtb"
_TARBALL = re.compile(r"linux-(\d+\.\d+\.\d+)\.tar\.(?:xz|gz|bz2)")
_TREE = re.compile(r"linux-(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Sdk:
    """``source``: a tree, or a tarball that ``patches`` go on."""

    source: Path
    patches: tuple[Path, ...]
    modules: tuple[vermagic.Module, ...]

    @property
    def is_tree(self) -> bool:
        return self.source.is_dir()


def find(directory: Path) -> Sdk:
    """The kernel of an SDK. Raises ``InputError`` with what is not where it should be."""
    place, kernel = Place(str(directory)), directory / KERNEL
    if not kernel.is_dir():
        raise InputError(f"expected the SDK's directory {KERNEL}, found none", place=place)
    names = sorted(path.name for path in kernel.iterdir())
    trees = [kernel / n for n in names if _TREE.fullmatch(n) and (kernel / n / "Makefile").is_file()]
    tarballs = [kernel / n for n in names if _TARBALL.fullmatch(n)]
    patches = tuple(kernel / n for n in names if n.endswith(".patch"))
    if len(trees) == 1:
        # A link is followed: the step's key must be that of the tree.
        found = Sdk(trees[0].resolve(), (), _modules(directory, trees[0].resolve()))
        _check_tree(found.source)
        _check_version(trees[0], found.modules)
        return found
    if trees or len(tarballs) != 1:
        raise InputError(
            f"expected one tree linux-5.15.73 or one tarball of it, found {len(trees)} and {len(tarballs)}",
            place=Place(str(kernel)),
            hint=f"there are {', '.join(names[:8]) or 'no files'}",
        )
    if not patches:
        raise InputError(
            f"expected the vendor's patch beside {tarballs[0].name}, found none: it brings the AX650",
            place=Place(str(kernel)),
        )
    found = Sdk(tarballs[0], patches, _modules(directory, kernel))
    _check_version(tarballs[0], found.modules)
    return found


def _check_tree(tree: Path) -> None:
    config = tree / "arch/arm64/configs" / DEFCONFIG
    if not config.is_file():
        raise InputError("expected the board's configuration, found none", place=Place(str(config)))


def _check_version(source: Path, modules: tuple[vermagic.Module, ...]) -> None:
    """Before anything is compiled: a kernel of another version takes none of the modules."""
    match = _TARBALL.fullmatch(source.name) or _TREE.fullmatch(source.name)
    release = modules[0].release
    if match and not re.match(rf"{re.escape(match[1])}(?!\d)", release):
        raise InputError(
            f"expected the kernel of the closed modules, {release}, found {match[1]}",
            place=Place(str(source)),
        )


def _modules(directory: Path, without: Path) -> tuple[vermagic.Module, ...]:
    """The closed modules: those that no build of the kernel made. Raises ``InputError`` for none."""
    found = vermagic.read_all(directory)
    closed = tuple(module for module in found if without not in Path(module.name).parents)
    if not closed:
        raise InputError(
            "expected the closed modules (ax_cmm.ko and others) in the SDK, found none",
            place=Place(str(directory)),
        )
    vermagic.wanted(closed)
    return closed
