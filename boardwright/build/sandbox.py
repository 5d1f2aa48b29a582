"""bubblewrap: the argument list that seals a command in a root.

Nothing of the host is visible but what is bound by name: no network, no host users, a fixed host name,
fixed paths, a fixed environment. See :mod:`boardwright.build.step` for what a step finds inside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.errors import HostError

PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SKIPPED = {"proc", "dev", "sys", "tmp", "run", "mnt", "media", "srv", "home", "root", "boot"}
_SKIPPED |= {"work", "in", "out"}


_ALIKE = ("--cap-drop", "ALL")
"""What bubblewrap does for ordinary users it must be told to do for root, or a step that changes an owner or
reads what it may not would end differently for the two."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What is visible inside: ``read_only`` and ``writable`` map inside paths to host paths."""

    root: Path
    read_only: Mapping[str, Path] = field(default_factory=dict)
    writable: Mapping[str, Path] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    directory: str = "/"
    network: bool = False


def argv(seal: Seal, command: list[str]) -> list[str]:
    """The command line that runs ``command`` sealed.

    ``command`` is process 1 inside: when it ends the kernel ends whatever it left in the background, and only
    then does bubblewrap end. All of them die with our own process.
    """
    line = [_program(), "--die-with-parent", "--as-pid-1", *_namespaces(seal.network), *_ALIKE, "--clearenv"]
    for name, value in sorted(_variables(seal).items()):
        line += ["--setenv", name, value]
    line += [*_root(seal.root), "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    for inside, host in sorted(seal.read_only.items()):
        line += ["--ro-bind", str(host), inside]
    for inside, host in sorted(seal.writable.items()):
        line += ["--bind", str(host), inside]
    return [*line, "--chdir", seal.directory, "--", *command]


def _program() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise HostError("bwrap is not installed", hint="run ./bootstrap, or install the package bubblewrap")
    return found


def _namespaces(network: bool) -> list[str]:
    flags = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    flags += ["--hostname", "boardwright"]
    if not network:
        flags.append("--unshare-net")
    if _needs_user_namespace():
        flags += ["--unshare-user", "--uid", "0", "--gid", "0"]
    return flags


def _needs_user_namespace() -> bool:
    """Real root may seal without a user namespace, which is the way out where they are forbidden."""
    return os.geteuid() != 0 or os.environ.get("BOARDWRIGHT_USERNS", "1") != "0"


def _variables(seal: Seal) -> dict[str, str]:
    fixed = {"PATH": PATH, "TZ": "UTC", "LC_ALL": "C.UTF-8", "HOME": "/work", "TERM": "dumb"}
    return {**fixed, **seal.variables}


def _root(root: Path) -> list[str]:
    """Bind the root's directories one by one, so that mount points can be made beside them."""
    line: list[str] = []
    for path in sorted(root.iterdir()):
        if path.name in _SKIPPED:
            continue
        if path.is_symlink():
            line += ["--symlink", str(path.readlink()), f"/{path.name}"]
        else:
            line += ["--ro-bind", str(path), f"/{path.name}"]
    return line


def require() -> None:
    """Raise ``HostError`` unless this host can seal a step: bwrap there, namespaces allowed."""
    trial = [_program(), *_namespaces(network=False), "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    result = subprocess.run(trial, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if result.returncode == 0:
        return
    said = (result.stderr.strip().splitlines() or [f"bwrap ended with {result.returncode}"])[-1]
    if os.geteuid() == 0:
        hint = (
            "inside a container or a chroot, allow it namespaces (CAP_SYS_ADMIN), or set BOARDWRIGHT_USERNS=0"
        )
    else:
        hint = (
            "allow them (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0), or run as root: root seals without them "
            "when BOARDWRIGHT_USERNS=0 is set"
        )
    raise HostError(f"this host does not allow user namespaces, which seal a step: {said}", hint=hint)
