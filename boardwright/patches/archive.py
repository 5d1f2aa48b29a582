"""A line's pristine source as a stream of files, straight from the downloads its lock names.

- a kernel: ``linux-source-X.Y.tar.xz`` inside Debian's .deb of that name;
- a source package: upstream's archive, then Debian's diff or series on top (what ``dpkg-source -x`` leaves
  without ``debian/``).
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from boardwright.errors import HostError, IntegrityError
from boardwright.patches import hunks


@dataclass(frozen=True, slots=True)
class Member:
    """A file or link of a source; ``path`` is relative to its top directory."""

    path: str
    executable: bool
    content: bytes
    link: bool = False
    """``content`` is the target of a symbolic link."""


Wanted = Callable[[str], bool]


def members(files: Mapping[str, Path], wanted: Wanted | None = None) -> Iterator[Member]:
    """Every file of the source made from ``files`` (pool name to path).

    Files that ``wanted`` refuses are passed over. Raises ``HostError`` when a program that
    unpacks is missing, ``IntegrityError`` when an archive cannot be read.
    """
    debs = [path for name, path in files.items() if name.endswith(".deb")]
    try:
        if debs:
            yield from _kernel(debs[0], wanted or _everything)
        else:
            yield from _source_package(files, wanted or _everything)
    except (tarfile.TarError, EOFError, OSError) as error:
        names = ", ".join(Path(name).name for name in files)
        raise IntegrityError(f"cannot unpack {names}: {error}") from error


def _everything(_: str) -> bool:
    return True


def directory(path: str) -> str:
    """The directory of a path of a source; '' at the top."""
    return path.rpartition("/")[0]


def _kernel(deb: Path, wanted: Wanted) -> Iterator[Member]:
    for program, package in (("dpkg-deb", "dpkg"), ("tar", "tar"), ("xz", "xz-utils")):
        if shutil.which(program) is None:
            raise HostError(f"{program} is not installed", hint=f"install the package {package}")
    commands = [
        ["dpkg-deb", "--fsys-tarfile", str(deb)],
        ["tar", "-x", "--to-stdout", "--wildcards", "./usr/src/linux-source-*.tar.xz"],
        ["xz", "--decompress", "--stdout", "--threads=0"],
    ]
    with _pipeline(commands) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        yield from _files(archive, wanted)


@contextlib.contextmanager
def _pipeline(commands: Sequence[Sequence[str]]) -> Iterator[IO[bytes]]:
    """The output of the last of ``commands``, each reading the one before; all are gone afterwards."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            before = running[-1].stdout if running else subprocess.DEVNULL
            running.append(
                subprocess.Popen(command, stdin=before, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            )
            if len(running) > 1 and running[-2].stdout:
                running[-2].stdout.close()
        assert running[-1].stdout is not None
        yield running[-1].stdout
    finally:
        for process in reversed(running):
            if process.stdout:
                process.stdout.close()
            process.kill()
            process.wait()


def _files(archive: tarfile.TarFile, wanted: Wanted) -> Iterator[Member]:
    while (info := archive.next()) is not None:
        archive.members = []  # type: ignore[attr-defined] # a stream never goes back to its 90,000 names
        path = info.name.removeprefix("./").partition("/")[2]
        if not path or not wanted(path):
            continue
        if info.issym():
            yield Member(path, False, info.linkname.encode(), link=True)
        elif info.isfile() and (file := archive.extractfile(info)):
            yield Member(path, bool(info.mode & 0o100), file.read())


def _source_package(files: Mapping[str, Path], wanted: Wanted) -> Iterator[Member]:
    """Debian's changes are applied to the files they touch, which therefore come last."""
    changes = [file for patch in _debian_patches(files) for file in patch.files]
    touched = {file.path for file in changes if wanted(file.path)}
    held: dict[str, Member] = {}
    original = next(path for name, path in files.items() if ".orig.tar." in name)
    with tarfile.open(original, mode="r:*") as archive:
        for member in _files(archive, wanted):
            if member.path in touched:
                held[member.path] = member
            else:
                yield member
    texts: dict[str, str | None] = {path: text(member.content) for path, member in held.items()}
    for change in changes:
        if change.path in touched:
            result, outcomes = hunks.apply(change, texts.get(change.path))
            if bad := next((one for one in outcomes if one.state != "applies"), None):
                raise IntegrityError(
                    f"Debian's own patch does not apply: {change.path}, hunk {bad.hunk.number}"
                )
            texts[change.path] = result
    for path, changed in texts.items():
        if changed is not None:
            yield Member(path, path in held and held[path].executable, raw(changed))


def _debian_patches(files: Mapping[str, Path]) -> list[hunks.Patch]:
    """Debian's changes in order: the diff of format 1.0 (where it has one), and ``debian/patches``."""
    debian: dict[str, bytes] = {}
    patches: list[hunks.Patch] = []
    for name, path in files.items():
        if name.endswith(".diff.gz"):
            whole = hunks.parse(text(gzip.decompress(path.read_bytes())))
            outside = tuple(file for file in whole.files if not file.path.startswith("debian/"))
            if outside:
                patches.append(hunks.Patch("", outside))
            inside = (file for file in whole.files if file.path.startswith("debian/patches/"))
            debian |= {file.path: raw(hunks.apply(file, None)[0] or "") for file in inside}
        elif ".debian.tar." in name:
            with tarfile.open(path, mode="r:*") as archive:
                for info in archive:
                    if info.isfile() and info.name.startswith("debian/patches/"):
                        file = archive.extractfile(info)
                        debian[info.name] = file.read() if file else b""
    series = text(debian.get("debian/patches/series", b""))
    names = [line.split("#")[0].split() for line in series.splitlines()]
    return [*patches, *(hunks.parse(text(debian[f"debian/patches/{name[0]}"])) for name in names if name)]


def text(content: bytes) -> str:
    """Source text; bytes that are no UTF-8 survive the way back through :func:`raw`."""
    return content.decode("utf-8", errors="surrogateescape")


def raw(content: str) -> bytes:
    return content.encode("utf-8", errors="surrogateescape")
