"""``recipes/<name>.yaml`` as typed objects: one class a kind, told apart by ``kind``."""

from __future__ import annotations

from typing import Literal

from boardwright.schema.board import Record


class DebianSource(Record):
    """A package that carries a source tree; version and SHA-256 stand in the lock."""

    debian: str
    suite: str
    as_: Literal["binary", "source"] = "binary"
    """``binary``: a .deb such as ``linux-source-6.12``; ``source``: the files of the source package."""


class RecipeBase(Record, tag_field="kind", kw_only=True):
    recipe: str
    summary: str = ""


class EnvironmentRecipe(RecipeBase, tag="environment", kw_only=True):
    """A Debian root in which steps run."""

    suite: str
    packages: list[str]
    architecture: Literal["amd64"] = "amd64"
    options: list[str] = []
    """Further options of mmdebstrap, such as ``--dpkgopt=path-exclude=/usr/share/man/*``."""


class KernelRecipe(RecipeBase, tag="kernel", kw_only=True):
    """A kernel compiled from Debian's source package, our patches and our fragments."""

    environment: str
    source: DebianSource
    localversion: str = "-boardwright"
    patches: list[str] = []
    config: list[str] = []


class DebianKernelRecipe(RecipeBase, tag="debian-kernel", kw_only=True):
    """Debian's own kernel package, with a small initramfs made without running arm64 code."""

    environment: str
    suite: str
    package: str
    modules: list[str]
    """Modules the initramfs carries, with what they depend on."""


class RootfsRecipe(RecipeBase, tag="rootfs", kw_only=True):
    """The root file system from Debian packages."""

    environment: str
    suite: str
    packages: list[str]
    architecture: Literal["arm64"] = "arm64"
    options: list[str] = []
    """Further options of mmdebstrap, such as ``--dpkgopt=path-exclude=/usr/share/man/*``."""
    exclude: list[str] = []
    """Paths left out of the tarball, such as ``/usr/share/doc``; globs allowed."""


class LoaderRecipe(RecipeBase, tag="u-boot", kw_only=True):
    """TF-A and U-Boot for a Rockchip board."""

    environment: str
    source: DebianSource
    firmware: DebianSource
    defconfig: str
    platform: str
    vendor: str | None = None
    """Name in ``vendor:`` of the DRAM initialisation blob."""


class ImageRecipe(RecipeBase, tag="image", kw_only=True):
    """The disk image."""

    environment: str


class OverlaysRecipe(RecipeBase, tag="device-tree-overlays", kw_only=True):
    """Overlays of a board, compiled and applied to its device tree as a test."""

    environment: str


Recipe = (
    EnvironmentRecipe
    | KernelRecipe
    | DebianKernelRecipe
    | RootfsRecipe
    | LoaderRecipe
    | ImageRecipe
    | OverlaysRecipe
)
