"""What mmdebstrap packed, made equal on every host: as a tarball again, or as a tree for a sandbox.

Left out are device nodes, the sources and settings that belong to the making of the root, and what
mmdebstrap took from the host. Times are at most the epoch; owners are numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from boardwright.errors import IntegrityError

_LEFT_OUT = re.compile(
    r"dev/.+|proc/.+|sys/.+|run/.+|tmp/.+"
    r"|etc/(resolv\.conf|\.resolv\.conf\.systemd-resolved\.bak|hostname|hosts|mtab)|etc/ssh/ssh_host_.+"
    r"|etc/apt/sources\.list(\.d/.+)?|etc/apt/apt\.conf\.d/9\dmmdebstrap|etc/dpkg/dpkg\.cfg\.d/99mmdebstrap"
    r"|var/lib/apt/lists/.+|var/cache/apt/.+|var/cache/ldconfig/aux-cache|var/lib/apt/extended_states"
    r"|var/log/(apt/.+|dpkg\.log|alternatives\.log|bootstrap\.log)|var/lib/dpkg/(status|available|diversions)-old"
    r"|var/cache/debconf/.+-old|etc/.+-|etc/\.pwd\.lock|var/lib/dpkg/lock(-frontend)?|var/lib/dbus/machine-id"
)
_BACKUPS = {"passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-"}


def members(archive: tarfile.TarFile, epoch: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """The members that stay, normalized, each with its bytes. Raises ``IntegrityError`` on a way out.

    mmdebstrap writes names as ``./usr/bin/env``; here they are ``usr/bin/env``.
    """
    for member in archive:
        name = member.name.removeprefix("./").strip("/")
        if name in ("", ".") or _is_left_out(name) or not _is_plain(member):
            continue
        if ".." in name.split("/"):
            raise IntegrityError(f"the root's tarball holds {member.name!r}, which leads out of it")
        member.name = name
        if member.islnk():
            member.linkname = member.linkname.removeprefix("./").strip("/")
        member.mtime = min(int(member.mtime), epoch)
        member.uname = member.gname = ""
        attributes = {k: v for k, v in member.pax_headers.items() if k.startswith("SCHILY.xattr.")}
        member.pax_headers = attributes
        yield member, archive.extractfile(member) if member.isreg() else None


def _is_left_out(name: str) -> bool:
    if name.startswith("etc/") and name.endswith("-"):
        return name.removeprefix("etc/") in _BACKUPS
    return _LEFT_OUT.fullmatch(name) is not None


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.isdir() or member.issym() or member.islnk()


def rewrite(source: Path, target: Path, epoch: int) -> None:
    """The normalized tarball. Raises ``OSError``, ``IntegrityError``."""
    with (
        tarfile.open(source, "r:") as archive,
        tarfile.open(target, "w:", format=tarfile.PAX_FORMAT) as made,
    ):
        for member, content in members(archive, epoch):
            made.addfile(member, content)


def unpack(source: Path, target: Path, epoch: int) -> None:
    """The tree, owned by us, without special bits. Raises ``OSError``, ``IntegrityError``.

    Nothing is written through a link: every directory on the way to a member must be one of the tree's.
    """
    target.mkdir()
    target.chmod(0o755)
    directories: dict[str, int] = {"": epoch}
    with tarfile.open(source, "r:") as archive:
        for member, content in members(archive, epoch):
            parent = member.name.rpartition("/")[0]
            if parent not in directories:
                raise IntegrityError(f"the root's tarball holds {member.name!r} below no directory of it")
            if member.isdir():
                directories[member.name] = int(member.mtime)
            _create(member, content, target, directories)
    for name, mtime in sorted(directories.items(), reverse=True):
        os.utime(target / name, (mtime, mtime))


def _create(
    member: tarfile.TarInfo, content: IO[bytes] | None, target: Path, directories: dict[str, int]
) -> None:
    path = target / member.name
    if member.isdir():
        path.mkdir()
        path.chmod(0o755)
        return
    if member.issym():
        path.symlink_to(member.linkname)
        os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
        return
    if member.islnk():
        origin = target / member.linkname
        if member.linkname.rpartition("/")[0] not in directories or origin.is_symlink():
            raise IntegrityError(f"the root's tarball links {member.name!r} to {member.linkname!r}")
        path.hardlink_to(origin)
        return
    assert content is not None
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    path.chmod(0o755 if member.mode & 0o111 else 0o644)
    os.utime(path, (member.mtime, member.mtime))
