"""The root file system's tarball: Debian's root, kernel modules, overlays and the user's settings in one.

``/in/base/root.tar``, ``/in/modules.tar``, ``/in/overlays/<name>/`` (in the order of ``$OVERLAYS``), perhaps
``/in/models/`` and ``/in/settings.json`` to ``/out/rootfs.tar`` and ``/out/packages.json``. Run as
``python3 -m sealed.rootfs`` in ``/in``, standard library only.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from .tartree import Fault, Tree

PRIVATE_OR_CHANGING = (
    # Secrets and identities: made on the first boot of each board.
    "etc/ssh/ssh_host_*",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "var/lib/systemd/credential.secret",
    # Copies that passwd, dpkg and debconf keep of what they changed.
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/subuid-",
    "etc/subgid-",
    "var/lib/dpkg/*-old",
    "var/cache/debconf/*-old",
    # Caches and logs: rebuilt when needed.
    "var/cache/apt/*.bin",
    "var/cache/apt/archives/*",
    "var/cache/ldconfig/*",
    "var/cache/man/*",
    "var/cache/fontconfig/*",
    "var/lib/apt/lists/*",
    "var/log/*",
    "*/__pycache__",
    "*.pyc",
    # Left by the making of the root, the name servers of the host that made it among them.
    "etc/resolv.conf",
    "etc/.resolv.conf.systemd-resolved.bak",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/apt/apt.conf.d/*mmdebstrap*",
    "etc/dpkg/dpkg.cfg.d/*mmdebstrap*",
    "tmp/*",
    "run/*",
    "dev/*",
)


def main(inputs: Path = Path("/in"), out: Path = Path("/out")) -> int:
    """Exit status of the step; a fault is told on standard error."""
    settings = json.loads((inputs / "settings.json").read_text())
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    overlays = os.environ.get("OVERLAYS", "").split()
    with Tree() as tree:
        try:
            merge(tree, inputs, overlays, settings["exclude"])
            apply_settings(tree, settings, epoch)
            tree.write(out / "rootfs.tar", epoch)
        except Fault as fault:
            print(f"error: {fault}", file=sys.stderr)
            return 1
        packages = installed(tree)
    (out / "packages.json").write_text(json.dumps(packages, indent=1) + "\n")
    size = (out / "rootfs.tar").stat().st_size
    print(f"{len(tree.nodes)} names, {len(packages)} packages, {size / 1e6:.0f} MB")
    return 0


def merge(tree: Tree, inputs: Path, overlays: list[str], exclude: list[str]) -> None:
    """Base, then modules, then overlays; what is private, changing or excluded is gone before overlays."""
    tree.add_tar(inputs / "base/root.tar")
    patterns = [*PRIVATE_OR_CHANGING, *(pattern.strip("/") for pattern in exclude)]
    unwanted = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))
    dropped = tree.drop(lambda name: unwanted.match(name) is not None)
    print(f"left out {len(dropped)} names")
    tree.add_tar(inputs / "modules.tar")
    for name in overlays:
        tree.add_directory(inputs / "overlays" / name, name)
    if (inputs / "models").is_dir():
        tree.add_directory(inputs / "models", "models")


def apply_settings(tree: Tree, settings: dict[str, Any], epoch: int) -> None:
    """Host name, keys and password of the user; account files without dates."""
    host = settings["hostname"]
    tree.add_file("etc/hostname", f"{host}\n".encode())
    tree.add_file("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {host}\n::1 localhost\n".encode())
    # Empty, not missing: systemd makes the id on the first boot, and does not treat that boot as the
    # first-boot wizard's (machine-id(5), "First Boot Semantics").
    tree.add_file("etc/machine-id", b"", 0o444)
    # What systemd looks at to see that /usr is no newer than /etc and /var: without them the first boot would
    # make caches again that dpkg has made (systemd-update-done.service(8)).
    tree.add_file("etc/.updated", b"")
    tree.add_file("var/.updated", b"")
    # Its time is the earliest the clock may show (systemd(1)): no board without a battery wakes up in 1970.
    tree.add_file("usr/lib/clock-epoch", b"")
    shadow = tree.read("etc/shadow").decode()
    if shadow:
        text = shadow_file(shadow, settings["root_password_hash"], epoch // 86400)
        node = tree.nodes["etc/shadow"].info
        tree.add_file("etc/shadow", text.encode(), node.mode)
        info = tree.nodes["etc/shadow"].info
        info.uid, info.gid = node.uid, node.gid
    if keys := settings["authorized_keys"]:
        tree.add_file("root/.ssh/authorized_keys", "".join(f"{key}\n" for key in keys).encode(), 0o600)
        tree.nodes["root/.ssh"].info.mode = 0o700


def shadow_file(text: str, root_hash: str | None, day: int) -> str:
    """``/etc/shadow`` with root's password, or with none that could match, and a fixed day of change."""
    rows = [line.split(":") for line in text.splitlines()]
    for row in rows:
        if row[0] == "root":
            row[1] = root_hash or "*"
        if row[2]:
            row[2] = str(day)
    return "".join(":".join(row) + "\n" for row in rows)


def installed(tree: Tree) -> list[dict[str, str]]:
    """Name, version and architecture of each package, from dpkg's own record."""
    stanzas = tree.read("var/lib/dpkg/status").decode().split("\n\n")
    found = []
    for stanza in stanzas:
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found.append({key.lower(): fields[key] for key in ("Package", "Version", "Architecture")})
    return sorted(found, key=lambda row: row["package"])


if __name__ == "__main__":
    sys.exit(main())
