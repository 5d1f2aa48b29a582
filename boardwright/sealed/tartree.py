"""A file tree held as tar members: merged from tarballs and directories, written back in one fixed order.

Nothing is unpacked, so owners, modes, links and devices survive without root. Names are relative, without
a leading ``./``. Standard library only.
"""

from __future__ import annotations

import contextlib
import copy
import io
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TYPES = (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


class Fault(Exception):
    """Input that must not become part of a root file system."""


@dataclass
class Node:
    """One name: its header, and how to open its bytes when it is a file."""

    info: tarfile.TarInfo
    open: Callable[[], IO[bytes] | None]


def _nothing() -> None:
    return None


class Tree:
    """Names to nodes. Later additions replace earlier ones, as overlays do.

    Tarballs stay open until the end of the ``with``: their bytes are read when the tree is written.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def read(self, name: str) -> bytes:
        """The bytes of a file; b'' when it is not there."""
        node = self.nodes.get(name)
        file = node.open() if node else None
        return file.read() if file else b""

    def add_tar(self, path: Path) -> None:
        """Add every member of a tarball. Raises :class:`Fault` for a name that leads out, or comes twice."""
        archive = self._open.enter_context(tarfile.open(path))  # noqa: SIM115 - entered
        seen: set[str] = set()
        for member in archive:
            name = safe_name(member.name, path.name)
            if not name:
                continue
            if name in seen and not member.isdir():
                raise Fault(f"{path.name}: {name} is there twice")
            seen.add(name)
            self._add_member(archive, member, self.resolve(name), path.name)

    def _add_member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, origin: str) -> None:
        old = self.nodes.get(name)
        if member.isdir() and old and old.info.issym():
            return  # ``lib`` of a modules tarball, which is ``usr/lib`` in the root
        info = copy.copy(member)
        if member.islnk():
            info.linkname = self._file(name, self.resolve(safe_name(member.linkname, origin)), origin)
        elif member.issym():
            check_link(name, member.linkname, origin)
        elif member.type not in _TYPES:
            raise Fault(f"{origin}: {name} is of tar type {member.type!r}, which no root has")
        self.put(name, Node(info, lambda: archive.extractfile(member) if member.isreg() else None))

    def _file(self, name: str, target: str, origin: str) -> str:
        """The name that carries the bytes of ``target``, to which ``name`` is a hard link."""
        node = self.nodes.get(target)
        if node is None:
            raise Fault(f"{origin}: {name} is a hard link to {target}, which does not come before it")
        if node.info.islnk():
            return node.info.linkname
        if not node.info.isreg():
            raise Fault(f"{origin}: {name} is a hard link to {target}, which is no file")
        return target

    def add_directory(self, root: Path, origin: str) -> None:
        """Add a directory's files, owned by root; of modes only 'executable' is taken."""
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                check_link(name, str(path.readlink()), origin)
                self.add_link(name, str(path.readlink()))
            elif stat.S_ISDIR(mode):
                self.add_parents(f"{self.resolve(name)}/x")
            elif stat.S_ISREG(mode):
                self.add_file(name, path.read_bytes(), 0o755 if mode & 0o100 else 0o644)
            else:
                raise Fault(f"overlay {origin}: {name} is neither file, directory nor link")

    def add_file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file of root's, following links among its directories (``lib`` is ``usr/lib``)."""
        info = _header(tarfile.REGTYPE, mode)
        info.size = len(data)
        name = self.resolve(name)
        self.add_parents(name)
        self.put(name, Node(info, lambda: io.BytesIO(data)))

    def add_link(self, name: str, target: str) -> None:
        info = _header(tarfile.SYMTYPE, 0o777)
        info.linkname = target
        name = self.resolve(name)
        self.add_parents(name)
        self.put(name, Node(info, _nothing))

    def add_parents(self, name: str) -> None:
        parts = name.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            self.nodes.setdefault("/".join(parts[:end]), Node(_header(tarfile.DIRTYPE, 0o755), _nothing))

    def put(self, name: str, node: Node) -> None:
        old = self.nodes.get(name)
        if old and old.info.isdir() != node.info.isdir():
            raise Fault(f"{name} is a directory in one place and not in another")
        if old and old.info.isreg():
            self._promote(name, {name})
        self.nodes[name] = node

    def resolve(self, name: str, depth: int = 0) -> str:
        """``name`` with links among its directories followed. Raises :class:`Fault` when they circle."""
        if depth > 16:
            raise Fault(f"{name}: its directories are links that circle")
        parts = name.split("/")
        for end in range(1, len(parts)):
            node = self.nodes.get("/".join(parts[:end]))
            if node and node.info.issym():
                target = join("/".join(parts[: end - 1]), node.info.linkname)
                return self.resolve("/".join([target, *parts[end:]]), depth + 1)
        return name

    def drop(self, unwanted: Callable[[str], bool]) -> list[str]:
        """Remove names, and what lies below them; a hard link to a dropped file becomes the file."""
        gone = [name for name in self.nodes if any(unwanted(p) for p in prefixes(name))]
        targets = {n.info.linkname for n in self.nodes.values() if n.info.islnk()} & set(gone)
        for target in targets:
            self._promote(target, set(gone))
        for name in gone:
            del self.nodes[name]
        return gone

    def _promote(self, target: str, gone: set[str]) -> None:
        """Let another name of the file ``target`` carry its bytes, one that is not in ``gone``."""
        links = sorted(
            n for n, node in self.nodes.items() if node.info.islnk() and node.info.linkname == target
        )
        links = [name for name in links if name not in gone]
        if links:
            self.nodes[links[0]] = self.nodes[target]
        for name in links[1:]:
            self.nodes[name].info.linkname = links[0]

    def write(self, path: Path, epoch: int) -> None:
        """Write the tree as a pax tarball: sorted by name, no time later than ``epoch``."""
        self._check_parents()
        first = self._first_of_hard_links()
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(self.nodes, key=lambda name: name.split("/")):
                node = self.nodes[name]
                target = node.info.linkname if node.info.islnk() else name
                data = self.nodes[target] if first.get(target) == name else node
                info = _final(data.info, name, epoch)
                if target in first and first[target] != name:
                    info.type, info.linkname, info.size = tarfile.LNKTYPE, first[target], 0
                archive.addfile(info, data.open() if info.isreg() else None)

    def _check_parents(self) -> None:
        for name in self.nodes:
            parent = name.rpartition("/")[0]
            if parent and (parent not in self.nodes or not self.nodes[parent].info.isdir()):
                raise Fault(f"{name} lies below {parent}, which is no directory of the root")

    def _first_of_hard_links(self) -> dict[str, str]:
        """For each file with several names, the one that sorts first: it carries the bytes."""
        first: dict[str, str] = {}
        for name, node in self.nodes.items():
            if node.info.islnk():
                target = node.info.linkname
                names = (first.get(target, target), name)
                first[target] = min(names, key=lambda one: one.split("/"))
        return first


def _header(kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.mode = kind, mode
    info.mtime = 2**33
    return info


def _final(info: tarfile.TarInfo, name: str, epoch: int) -> tarfile.TarInfo:
    final = copy.copy(info)
    final.name = name
    final.mtime = int(min(info.mtime, epoch))
    final.uname = final.gname = ""
    kept = ("SCHILY.xattr.",)
    final.pax_headers = {k: v for k, v in info.pax_headers.items() if k.startswith(kept)}
    return final


def safe_name(name: str, origin: str) -> str:
    """A member's name without ``./``; '' for the root itself. Raises :class:`Fault` if it leads out."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise Fault(f"{origin}: {name!r} leads out of the root")
    return "/".join(parts)


def check_link(name: str, target: str, origin: str) -> None:
    """Raise :class:`Fault` when a link climbs above the root; absolute targets stay inside by chroot."""
    if not target.startswith("/") and join(name.rpartition("/")[0], target).startswith(".."):
        raise Fault(f"{origin}: {name} is a link to {target}, which leads out of the root")


def join(directory: str, target: str) -> str:
    """``target`` as seen from ``directory``, without ``.`` and ``..`` where they can be resolved."""
    parts: list[str] = [] if target.startswith("/") else [part for part in directory.split("/") if part]
    for part in target.split("/"):
        if part == "..":
            if parts and parts[-1] != "..":
                parts.pop()
            else:
                parts.append("..")
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def prefixes(name: str) -> Iterator[str]:
    """``a``, ``a/b``, ``a/b/c`` for ``a/b/c``."""
    parts = name.split("/")
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end])
