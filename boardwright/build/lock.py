"""From what a recipe asks for to exact packages: ``recipes/<name>.lock.json``.

apt resolves, in a directory of its own (:mod:`boardwright.build.apt`), from signed indices:

- ``environment`` and ``rootfs``: Debian's essential packages and the recipe's (and apt itself in a root file
  system), with their dependencies and without recommendations;
- ``kernel``: the one .deb that carries the kernel's source;
- ``debian-kernel``: the kernel's .deb (behind a metapackage such as ``linux-image-arm64``) and
  ``busybox-static`` for the initramfs, both without dependencies;
- ``u-boot``: the files of the two source packages;
- ``meson``: the files of the source package, and the arm64 libraries it names, without dependencies: those
  of libglvnd-dev alone would bring Debian's Mesa and LLVM.

A root file system that installs packages built here is resolved with their control fields beside the index,
so what they replace does not come along; the lock names only what a mirror has.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from boardwright.build import apt as apts
from boardwright.build import mirror
from boardwright.build.apt import Apt, Fields
from boardwright.errors import BoardwrightError, HostError, InputError, Place
from boardwright.schema.lock import Lock, LockedFile, request_digest
from boardwright.schema.recipe import (
    DebianKernelRecipe,
    DebianSource,
    EnvironmentRecipe,
    KernelRecipe,
    LoaderRecipe,
    MesonRecipe,
    ProjectRecipe,
    Recipe,
    RootfsRecipe,
)
from boardwright.schema.suggest import nearest

INITRAMFS = "busybox-static"
"""What the initramfs of a ``debian-kernel`` runs."""


BOARD = "arm64"
"""Debian's name for the architecture of every board."""


def resolve(
    recipe: Recipe,
    mirrors: tuple[str, ...],
    cache: Path,
    *,
    file: Path | None = None,
    built: Mapping[str, str] = MappingProxyType({}),
) -> Lock:
    """The lock of ``recipe`` as the first usable mirror has it today.

    ``file`` is the recipe's file, for the place of an error. ``built``: packages that a root file system
    gets from a build, each with its control fields. Raises ``InputError`` for a package that the
    suite does not have, ``HostError`` without apt or without a usable mirror.
    """
    mirror.require(mirrors)
    try:
        if isinstance(recipe, EnvironmentRecipe | RootfsRecipe):
            apt = _index(mirrors, cache, recipe.suite, recipe.architecture, local=_stanzas(built))
            extra = ["apt"] if isinstance(recipe, RootfsRecipe) else []
            asked = [name for name in recipe.packages if name.split("=")[0] not in _replaced(built)]
            found = _with_dependencies(apt, ["?essential", *extra, *asked, *built], set(built))
        elif isinstance(recipe, DebianKernelRecipe):
            apt = _index(mirrors, cache, recipe.suite, BOARD)
            found = [_behind_metapackage(apt, recipe.package), _package(apt, INITRAMFS)]
        elif isinstance(recipe, KernelRecipe):
            apt = _index(mirrors, cache, recipe.source.suite, BOARD)
            found = [_package(apt, recipe.source.debian)]
        elif isinstance(recipe, LoaderRecipe):
            return _lock(recipe, *_sources((recipe.source, recipe.firmware), mirrors, cache))
        elif isinstance(recipe, MesonRecipe):
            return _meson_lock(recipe, mirrors, cache)
        elif isinstance(recipe, ProjectRecipe):
            apt = _index(mirrors, cache, recipe.suite, BOARD)
            found = [_package(apt, name) for name in recipe.libraries]
        else:
            raise InputError(f"recipe {recipe.recipe} takes nothing from a mirror: it has no lock")
    except InputError as error:
        raise _placed(error, file) from None
    return _lock(recipe, found, apt.epoch())


def _index(
    mirrors: tuple[str, ...],
    cache: Path,
    suite: str,
    architecture: str,
    sources: bool = False,
    local: str = "",
) -> Apt:
    """apt with the index of the first mirror that serves ``suite``, and the stanzas ``local`` beside it."""
    failures: list[BoardwrightError] = []
    for address in mirrors:
        try:
            return apts.prepared(cache, address, suite, architecture, sources=sources, local=local)
        except HostError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise HostError(
        "no mirror could be used:\n" + "\n".join(f"  {error.message}" for error in failures),
        hint=failures[0].hint,
    )


def _with_dependencies(
    apt: Apt, packages: list[str], without: Collection[str] = frozenset()
) -> list[LockedFile]:
    """``packages`` with all they depend on, as apt would install them; those of ``without`` not named.

    A package may be a pattern of apt's, such as ``?essential``.
    """
    known = set(apt.names())
    for name in packages:
        if name.split("=")[0] not in known and not name.startswith("?"):
            raise _unknown(name, known)
    done = apt.run("apt-get", "--simulate", "install", *packages)
    if done.returncode != 0:
        unmet = done.stdout.partition("unmet dependencies:\n")[2].strip() or apts.errors(done.stderr)
        raise InputError(f"apt cannot install these packages together:\n {unmet}")
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", done.stdout, re.MULTILINE)
    chosen = [(name, version) for name, version in found if name not in without]
    stanzas = apt.stanzas("show", *(f"{name}={version}" for name, version in chosen))
    files = [_locked(stanza) for stanza in stanzas]
    if {(file.package, file.version) for file in files} != {(n.split(":")[0], v) for n, v in chosen}:
        raise HostError("apt chose packages that its own index does not describe", hint="run it again")
    return files


def _stanzas(built: Mapping[str, str]) -> str:
    """An index of packages built here; apt wants to know of a file, though it never asks for it."""
    file = f"Size: 1\nSHA256: {'0' * 64}\n"
    return "\n".join(f"{text}Filename: ./{name}.deb\n{file}" for name, text in built.items())


def _replaced(built: Mapping[str, str]) -> set[str]:
    """The packages whose place packages built here take."""
    return {name for text in built.values() for name in apts.fields(text).get("Replaces", "").split(", ")}


def _package(apt: Apt, name: str) -> LockedFile:
    return _locked(_stanza(apt, name))


def _stanza(apt: Apt, name: str) -> Fields:
    found = apt.stanzas("show", "--no-all-versions", name)
    if not found:
        raise _unknown(name, apt.names())
    return found[0]


def _behind_metapackage(apt: Apt, name: str) -> LockedFile:
    """``linux-image-arm64`` holds no kernel but depends on the one that does, of its own version."""
    stanza = _stanza(apt, name)
    match = re.search(r"(linux-image-\d\S+) \(= ", stanza.get("Depends", ""))
    return _package(apt, match.group(1)) if match else _locked(stanza)


def _sources(
    sources: Iterable[DebianSource], mirrors: tuple[str, ...], cache: Path
) -> tuple[list[LockedFile], int]:
    """The files of source packages, and the date of the newest index they came from."""
    found: list[LockedFile] = []
    epochs: list[int] = []
    for source in sources:
        apt = _index(mirrors, cache, source.suite, BOARD, sources=source.as_ == "source")
        found += _source_files(apt, source) if source.as_ == "source" else [_package(apt, source.debian)]
        epochs.append(apt.epoch())
    return found, max(epochs)


def _meson_lock(recipe: MesonRecipe, mirrors: tuple[str, ...], cache: Path) -> Lock:
    files, epoch = _sources([recipe.source], mirrors, cache)
    apt = _index(mirrors, cache, recipe.source.suite, BOARD)
    libraries = [_package(apt, name) for name in recipe.libraries]
    return _lock(recipe, [*files, *libraries], max(epoch, apt.epoch()))


def _source_files(apt: Apt, source: DebianSource) -> list[LockedFile]:
    """The upstream archive and Debian's part of a source package, of its newest version.

    Not its .dsc: that says what the signed index says, nothing is built from it, and not every mirror has it.
    """
    stanzas = apt.stanzas("showsrc", "--only-source", source.debian)
    if not stanzas:
        raise _unknown(source.debian, apt.source_names())
    stanza = stanzas[0]
    for other in stanzas[1:]:
        if _newer(apt, other["Version"], stanza["Version"]):
            stanza = other
    rows = [line.split() for line in stanza["Checksums-Sha256"].split("\n") if line]
    return [
        LockedFile(
            package=stanza["Package"],
            version=stanza["Version"],
            architecture="source",
            path=f"{stanza['Directory']}/{name}",
            size=int(size),
            sha256=sha256,
        )
        for sha256, size, name in rows
        if not name.endswith((".asc", ".dsc"))
    ]


def _newer(apt: Apt, one: str, other: str) -> bool:
    return apt.run("dpkg", "--compare-versions", one, "gt", other).returncode == 0


def _locked(stanza: Fields) -> LockedFile:
    return LockedFile(
        package=stanza["Package"],
        version=stanza["Version"],
        architecture=stanza["Architecture"],
        path=stanza["Filename"],
        size=int(stanza["Size"]),
        sha256=stanza["SHA256"],
    )


def _lock(recipe: Recipe, files: Iterable[LockedFile], epoch: int) -> Lock:
    ordered = sorted(files, key=lambda file: (file.package, file.architecture, file.path))
    return Lock(version=1, recipe=recipe.recipe, request=request_digest(recipe), epoch=epoch, files=ordered)


def _unknown(name: str, known: Iterable[str]) -> InputError:
    return InputError(f"the suite has no package {name!r}", hint=nearest(name, known))


def _placed(error: InputError, file: Path | None) -> InputError:
    """The error at the line of the recipe that names the package."""
    if file is None:
        return error
    line = 0
    if named := re.search(r"'(\S+)'", error.message):
        word = re.compile(rf"(?<![\w.+-]){re.escape(named.group(1))}(?![\w.+-])")
        lines = file.read_text().splitlines()
        line = next((n for n, text in enumerate(lines, 1) if word.search(text)), 0)
    return InputError(error.message, place=Place(str(file), line), hint=error.hint)


def text(lock: Lock) -> str:
    """A lock as JSON with one package a line, so that a change of a version is one changed line."""
    head = {"version": lock.version, "recipe": lock.recipe, "request": lock.request, "epoch": lock.epoch}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    files = ",\n".join(f"  {json.dumps(_row(file))}" for file in lock.files)
    return "\n".join(["{", *lines, ' "files": [', files, " ]", "}", ""])


def _row(file: LockedFile) -> dict[str, str | int]:
    return {
        "package": file.package,
        "version": file.version,
        "architecture": file.architecture,
        "path": file.path,
        "size": file.size,
        "sha256": file.sha256,
    }


def write(lock: Lock, path: Path) -> None:
    """Write a lock: whole or not at all. Raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            file.write(text(lock))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def difference(old: Lock | None, new: Lock) -> list[str]:
    """What ``new`` changes, a line each: ``+`` added, ``-`` removed, ``~`` another version or other bytes."""
    before = {_name(file): file for file in old.files} if old else {}
    after = {_name(file): file for file in new.files}
    lines: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one is None and other is not None:
            lines.append(f"+ {name} {other.version}")
        elif other is None and one is not None:
            lines.append(f"- {name} {one.version}")
        elif one and other and one.version != other.version:
            lines.append(f"~ {name} {one.version} -> {other.version}")
        elif one and other and one.sha256 != other.sha256:
            lines.append(f"~ {name} {one.version}: other bytes")
    return lines


def _name(file: LockedFile) -> str:
    """A package, or one file of a source package told by what follows its version."""
    if file.architecture != "source":
        return file.package
    kind = re.search(r"\.(orig\S*|debian\.tar\.\S+|diff\.gz|tar\.\S+)$", file.path)
    return f"{file.package} {kind.group(1) if kind else Path(file.path).name}"
