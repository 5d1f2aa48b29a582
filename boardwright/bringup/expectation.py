"""What a run is compared with: the board file, the manifest of the build, and the image itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boardwright.errors import ProductError
from boardwright.image import names
from boardwright.layout import bootargs
from boardwright.layout.memory import cma_argument
from boardwright.schema.board import Board, Cma
from boardwright.targets import gpt


@dataclass(frozen=True, slots=True)
class Expectation:
    """``None``: nothing is known, and the check that needs it is skipped.

    ``words``: words the kernel command line must have. ``append``: all of it, when the manifest says so.
    ``root_partuuid``: lower case. ``modules``: driver modules the board is built for.
    """

    image_sha256: str | None
    kernel_release: str | None
    append: str | None
    words: tuple[str, ...]
    root_partuuid: str | None
    cma: Cma | None
    epoch: int = 0
    modules: tuple[str, ...] = ("radeon", "rocket")
    loader: str | None = None
    """U-Boot's version in the image, when the image holds one that the boot ROM can start."""


def expectation(
    board: Board, manifest: Mapping[str, Any], image: Path | None, once: str | None = None
) -> Expectation:
    """``once``: the bootargs of this one boot, in place of the image's own.

    Manifest keys read: ``artifacts.<image>``, ``kernel.release``, ``boot.append``, ``boot.bootargs``,
    ``boot.root-partuuid``, ``epoch``, ``inputs``, ``left_out``; the root's PARTUUID otherwise comes from the
    image's own table."""
    boot = manifest.get("boot", {})
    kept = names.has_no_table(board) or once is not None  # a loader may put words of its own beside ours
    root = boot.get("root-partuuid") or (None if names.has_no_table(board) else _root_of(board, image))
    return Expectation(
        image_sha256=manifest.get("artifacts", {}).get(names.image_name(board)),
        kernel_release=manifest.get("kernel", {}).get("release"),
        append=None if kept else boot.get("append"),
        words=tuple(once.split() if once is not None else _built_words(board, boot, root)),
        root_partuuid=root.lower() if root else None,
        cma=board.memory.cma,
        epoch=int(manifest.get("epoch", 0)),
        loader=_loader(board, manifest),
    )


def _built_words(board: Board, boot: Mapping[str, Any], root: str | None) -> Iterable[str]:
    return _layout_words(boot) if names.has_no_table(board) else _words(board, root)


def _loader(board: Board, manifest: Mapping[str, Any]) -> str | None:
    if board.boot.loader is None or "idbloader" in manifest.get("left_out", {}):
        return None
    for source in manifest.get("inputs", {}).get(board.boot.loader, []):
        if found := re.search(r"/u-boot_(\d{4}\.\d\d)", str(source.get("path", ""))):
            return found[1]
    return None


def _layout_words(boot: Mapping[str, Any]) -> list[str]:
    """The words that say where things are; of the others the emulator replaces some, and so does U-Boot."""
    return [word for word in str(boot.get("bootargs", "")).split() if word.partition("=")[0] in bootargs.MADE]


def _words(board: Board, root: str | None) -> list[str]:
    words = [f"root=PARTUUID={root}"] if root else []
    if board.memory.cma:
        words.append(f"cma={cma_argument(board.memory.cma)}")
    return [*words, *board.boot.append.split()]


def _root_of(board: Board, image: Path | None) -> str | None:
    if image is None:
        return None
    wanted = next(p.name for p in board.partitions if p.contents == "rootfs")
    for partition in gpt.read(image):
        if partition.name == wanted:
            return partition.guid
    raise ProductError(f"expected a partition {wanted!r} in {image.name}")
