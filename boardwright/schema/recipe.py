"""``recipes/<name>.yaml`` as typed objects: one class a kind, told apart by ``kind``."""

# ruff: noqa: RUF012 -- msgspec copies an empty list that is a default

from __future__ import annotations

from typing import Literal

from boardwright.schema.board import Record
from boardwright.schema.words import (
    FileName,
    LocalVersion,
    MatmulShape,
    Name,
    PackageName,
    PackageRequest,
    PackageVersion,
    Positive,
    RelativePath,
    Sha256,
    Suite,
    Url,
)


class DebianSource(Record):
    """A package that carries a source tree; version and SHA-256 stand in the lock."""

    debian: PackageName
    """The package."""
    suite: Suite
    as_: Literal["binary", "source"] = "binary"
    """``binary``: a .deb such as ``linux-source-6.12``; ``source``: the files of the source package."""


class RecipeBase(Record, tag_field="kind", kw_only=True):
    """What recipes of every kind have."""

    recipe: Name
    """The name of its file, without ``.yaml``."""
    summary: str = ""
    """One line for people."""


class EnvironmentRecipe(RecipeBase, tag="environment", kw_only=True):
    """A Debian root in which steps run."""

    suite: Suite
    packages: list[PackageRequest]
    """Besides Debian's essential ones and what they depend on."""
    architecture: Literal["amd64"] = "amd64"
    options: list[str] = []
    """Further options of mmdebstrap, such as ``--dpkgopt=path-exclude=/usr/share/man/*``."""


class KernelRecipe(RecipeBase, tag="kernel", kw_only=True):
    """A kernel compiled from Debian's source package, our patches and our fragments."""

    environment: Name
    source: DebianSource
    localversion: LocalVersion = "-boardwright"
    """What follows the version in ``uname -r``."""
    patches: list[Name] = []
    """Topics: directories in ``patches/kernel/`` with a ``series`` file, applied in order."""
    config: list[RelativePath] = []
    """Fragments in ``recipes/linux/``, later ones win; every line must hold in the end."""


class DebianKernelRecipe(RecipeBase, tag="debian-kernel", kw_only=True):
    """Debian's own kernel package, with a small initramfs made without running arm64 code."""

    environment: Name
    suite: Suite
    package: PackageName
    """The kernel, or the metapackage that depends on it, such as ``linux-image-arm64``."""
    modules: list[FileName]
    """Modules the initramfs carries, with what they depend on."""


class RootfsRecipe(RecipeBase, tag="rootfs", kw_only=True):
    """The root file system from Debian packages."""

    environment: Name
    suite: Suite
    packages: list[PackageRequest] = []
    """Besides Debian's essential ones and what they depend on."""
    architecture: Literal["arm64"] = "arm64"
    options: list[str] = []
    """Further options of mmdebstrap, such as ``--dpkgopt=path-exclude=/usr/share/man/*``."""
    exclude: list[str] = []
    """Paths left out of the tarball, such as ``/usr/share/doc``; globs allowed."""
    extends: Name | None = None
    """Another recipe of kind ``rootfs``, whose packages, options and exclusions this one has too."""
    built: list[Name] = []
    """Recipes of kind ``meson`` or ``project`` whose packages are installed too, or in place of the
    distribution's."""


class DebianPackage(Record):
    """A .deb made of what a build installed, in place of packages of the distribution."""

    name: PackageName
    description: str
    """One line, as `apt show` prints it."""
    depends: list[PackageName] = []
    """Packages with the shared libraries it needs; one too many or too few fails the build."""
    replaces: list[PackageName] = []
    """Packages whose place it takes: it provides their names and conflicts with them."""


class MesonRecipe(RecipeBase, tag="meson", kw_only=True):
    """A program of Debian's source package, patched and cross-built for arm64 with meson."""

    environment: Name
    source: DebianSource
    libraries: list[PackageName]
    """arm64 packages with the headers and libraries to build against, exactly these."""
    patches: list[Name] = []
    """Topics: directories in ``patches/<source package>/`` with a ``series`` file, applied in order."""
    options: dict[str, str] = {}
    """Options of the project, ``-Dname=value``, such as ``gallium-drivers: "r600,radeonsi"``."""
    beside: list[str] = []
    """Installed paths that do not go into the package, such as ``usr/lib/*/lib*_shim.so``; globs."""
    deb: DebianPackage | None = None
    """The .deb; without it there is only the tree of installed files."""


class ProjectRecipe(RecipeBase, tag="project", kw_only=True):
    """A meson project of this repository, cross-built for arm64 into a .deb."""

    environment: Name
    suite: Suite
    libraries: list[PackageName]
    """arm64 packages with the headers and libraries to build against, exactly these."""
    project: RelativePath
    """The directory of the project."""
    parts: list[RelativePath]
    """Files and directories of the repository that the build reads; nothing else is there, or in the key."""
    version: PackageVersion
    """Of the package."""
    options: dict[str, str] = {}
    """Options of the project, ``-Dname=value``."""
    beside: list[str] = []
    """Installed paths that do not go into the package; globs."""
    deb: DebianPackage


class LoaderRecipe(RecipeBase, tag="u-boot", kw_only=True):
    """TF-A and U-Boot for a Rockchip board."""

    environment: Name
    source: DebianSource
    """U-Boot."""
    firmware: DebianSource
    """Trusted Firmware-A."""
    defconfig: FileName
    """U-Boot's configuration, such as ``rock5b-rk3588_defconfig``."""
    platform: FileName
    """TF-A's ``PLAT``, such as ``rk3588``."""
    vendor: str | None = None
    """Name in ``vendor:`` of the DRAM initialisation blob."""


class NativeRecipe(RecipeBase, tag="native", kw_only=True):
    """Our own C code, cross-compiled for arm64 into one tarball."""

    environment: Name
    shared_libraries: list[RelativePath] = []
    """Directories; the C files of each become ``lib<its name>.so``."""
    programs: list[RelativePath] = []
    """C files; each becomes a program of its name."""
    patches: list[RelativePath] = []
    """Topics such as ``patches/mesa/aligned-access``, to take ``created`` from."""
    created: list[RelativePath] = []
    """Files that these patches create; they are compiled into every program."""


class AxStandinRecipe(RecipeBase, tag="ax-standin", kw_only=True):
    """What takes the place of the AX650N's closed modules and run-time on the emulated board."""

    environment: Name
    models: list[MatmulShape]
    """Shapes of the matrix products that the stand-in's models have, ``<K>x<rows>x<rows>``."""


class Model(Record):
    """A published file of a language model."""

    url: Url
    size: Positive
    """Bytes."""
    sha256: Sha256 | None = None
    """None: nobody has told it; ``local.yaml`` must."""


class ModelsRecipe(RecipeBase, tag="models", kw_only=True):
    """Weights and tokenizers of language models; ``models`` of ``local.yaml`` says which the image gets."""

    directory: Literal["/opt/models"] = "/opt/models"
    """Where they are on the board."""
    models: dict[FileName, Model]


class ImageRecipe(RecipeBase, tag="image", kw_only=True):
    """The disk image."""

    environment: Name


class OverlaysRecipe(RecipeBase, tag="device-tree-overlays", kw_only=True):
    """Overlays of a board, compiled and applied to its device tree as a test."""

    environment: Name


Recipe = (
    EnvironmentRecipe
    | KernelRecipe
    | DebianKernelRecipe
    | RootfsRecipe
    | MesonRecipe
    | ProjectRecipe
    | LoaderRecipe
    | NativeRecipe
    | AxStandinRecipe
    | ModelsRecipe
    | ImageRecipe
    | OverlaysRecipe
)
