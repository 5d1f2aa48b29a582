"""A step: one node of the plan, immutable, with everything that can change its output.

A sealed step is a bash script that runs in an environment (a locked Debian root) with

===============  =====================================================================
``/in/<name>``   its inputs, read-only: a file or a directory
``/in/sealed``   ``boardwright/sealed``, when the step names helper programs
``/work``        its working directory, empty at the start
``/out``         where the declared outputs must be when the script ends
``/tree``        a directory kept between builds, only when ``kept_tree`` names one
``/cache/ccache``  the compiler cache, only when ``ccache`` is set
===============  =====================================================================

and the variables of ``variables`` plus ``JOBS`` (which is not part of the key), ``SOURCE_DATE_EPOCH``,
``TZ=UTC``, ``LC_ALL=C.UTF-8``, ``HOME=/work``; umask 022, host name ``boardwright``, no network.

A root step makes such a root (or a root file system) with mmdebstrap from the packages of a lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Output(msgspec.Struct, frozen=True):
    """An output of an earlier step: ``path`` below its ``/out`` ('' for all of it)."""

    step: str
    path: str = ""


class LocalFile(msgspec.Struct, frozen=True):
    """A file or directory of the project or the user, by content.

    ``digest`` covers names, modes (executable or not), link targets and bytes, never times or owners.
    """

    path: str
    digest: str


class Download(msgspec.Struct, frozen=True):
    """A file named by a lock: fetched before the step runs, verified, kept by SHA-256.

    ``path`` is relative to a mirror (``pool/main/…``) or, for vendor files, a URL or an absolute path.
    """

    path: str
    size: int
    sha256: str


class Text(msgspec.Struct, frozen=True):
    """A file whose content the plan already knows."""

    content: str


class Rendered(msgspec.Struct, frozen=True):
    """A file or tree of the project in which ``*.j2`` are rendered with jinja2 and lose their suffix."""

    path: str
    digest: str
    variables: str
    """JSON object, keys sorted."""


Input = Output | LocalFile | Download | Text | Rendered


class Package(msgspec.Struct, frozen=True):
    """A .deb (or a file of a source package, ``architecture: source``) as the lock names it."""

    name: str
    version: str
    architecture: str
    path: str
    size: int
    sha256: str


class Built(msgspec.Struct, frozen=True):
    """A .deb that an earlier step makes: the package's name, version and architecture, and where it is."""

    name: str
    version: str
    architecture: str
    output: Output


class Step(msgspec.Struct, frozen=True):
    """A sealed step. ``name`` is what users type; ``key`` stands in :class:`~boardwright.build.plan.Plan`."""

    name: str
    title: str
    script: str
    environment: str
    outputs: tuple[str, ...]
    inputs: Mapping[str, Input] = {}
    variables: Mapping[str, str] = {}
    epoch: int = 0
    sealed: tuple[str, ...] = ()
    """File names in ``boardwright/sealed`` that the script runs."""
    kept_tree: str | None = None
    ccache: bool = False


class RootStep(msgspec.Struct, frozen=True):
    """A Debian root from locked packages. Output ``root`` (a tree) or ``root.tar``."""

    name: str
    title: str
    architecture: str
    packages: tuple[Package, ...]
    output: Literal["root", "root.tar"]
    epoch: int = 0
    options: tuple[str, ...] = ()
    """Further options of mmdebstrap, such as ``--dpkgopt=path-exclude=/usr/share/man/*``."""
    built: tuple[Built, ...] = ()
    """Packages that no mirror has, from earlier steps."""

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,)


AnyStep = Step | RootStep
