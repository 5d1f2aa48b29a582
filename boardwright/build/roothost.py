"""What a host must have to make a Debian root: mmdebstrap, namespaces for users, an emulator for arm64."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from boardwright.errors import HostError

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture to the kernel's."""
_BINFMT = Path("/proc/sys/fs/binfmt_misc")


def require(architecture: str) -> None:
    """Raise ``HostError`` unless this host can make a root of ``architecture``."""
    if shutil.which("mmdebstrap") is None:
        raise HostError(
            "mmdebstrap is not installed", hint="run ./bootstrap, or install the package mmdebstrap"
        )
    if os.geteuid() != 0:
        _require_user_namespaces()
    if is_emulated(architecture):
        _require_emulation(architecture)


def is_emulated(architecture: str) -> bool:
    """Whether programs of ``architecture`` run through an emulator here."""
    return platform.machine() != _MACHINES[architecture]


def _require_user_namespaces() -> None:
    if shutil.which("newuidmap") is None:
        raise HostError(
            "newuidmap is not installed, which a user needs to make a Debian root",
            hint="install the package uidmap, or run as root",
        )
    user = getpass.getuser()
    for name in ("/etc/subuid", "/etc/subgid"):
        text = Path(name).read_text() if Path(name).exists() else ""
        if not re.search(rf"^({re.escape(user)}|{os.getuid()}):", text, re.MULTILINE):
            raise HostError(
                f"{name} gives {user} no numbers for users inside a root",
                hint=f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}; "
                "or run as root",
            )
    done = subprocess.run(
        ["unshare", "--user", "true"], capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise HostError(
            "this host does not allow users to make namespaces, in which a Debian root is made",
            hint="sysctl kernel.unprivileged_userns_clone=1 (Ubuntu 24.04: "
            "kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
        )


def _require_emulation(architecture: str) -> None:
    """The kernel must run foreign programs through an emulator it has opened itself (flag F)."""
    machine = _MACHINES[architecture]
    if is_registered(machine):
        return
    if os.geteuid() == 0:
        _register(machine)
        if is_registered(machine):
            return
    raise HostError(
        f"this host cannot run {architecture} programs: no emulator is registered for {machine}",
        hint="install qemu-user-static and binfmt-support, then as root: mount binfmt_misc -t binfmt_misc "
        f"{_BINFMT}; update-binfmts --enable qemu-{machine}",
    )


def is_registered(machine: str) -> bool:
    """Whether the kernel runs programs of ``machine`` through an emulator it has opened itself."""
    try:
        text = (_BINFMT / f"qemu-{machine}").read_text()
    except OSError:
        return False
    return text.startswith("enabled") and re.search(r"^flags: .*F", text, re.MULTILINE) is not None


def _register(machine: str) -> None:
    """Containers often have neither the mount nor the registration; root can make both."""
    if not (_BINFMT / "register").exists():
        quietly("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
    if shutil.which("update-binfmts"):
        quietly("update-binfmts", "--enable", f"qemu-{machine}")
    setting = Path(f"/usr/lib/binfmt.d/qemu-{machine}.conf")
    if not is_registered(machine) and setting.exists():
        with contextlib.suppress(OSError):
            (_BINFMT / "register").write_text(setting.read_text().strip())


def quietly(*command: str) -> None:
    """Run a command for what it does, if it can; what it says and how it ends is not looked at."""
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)


def isolation() -> list[str]:
    """What keeps the mounts of mmdebstrap, when root runs it, out of ours, and ends all it started.

    In a user's namespace they are out of ours anyway; in a container that may not mount, mmdebstrap mounts
    nothing either.
    """
    if os.geteuid() != 0:
        return []
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    trial = subprocess.run([*command, "true"], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return command if trial.returncode == 0 else []
