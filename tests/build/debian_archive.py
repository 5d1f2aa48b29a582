"""A small signed Debian archive, made with the real tools: dpkg-deb, gpg."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Archive:
    """``dists/`` and ``pool/`` below ``root``; call :meth:`publish` after adding packages."""

    root: Path
    home: Path
    """GnuPG's directory."""
    suite: str = "trixie"
    packages: dict[str, list[str]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)

    @property
    def keyring(self) -> Path:
        return self.home / "keyring.gpg"

    def make_key(self) -> None:
        self.home.mkdir(mode=0o700)
        self._gpg(
            "--passphrase", "", "--quick-generate-key", "archive@example.org", "ed25519", "sign", "never"
        )
        self._gpg("--output", str(self.keyring), "--export")

    def _gpg(self, *arguments: str) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def deb(
        self, name: str, version: str = "1", architecture: str = "arm64", fields: str = "", size: int = 0
    ) -> Path:
        """A package of one file, added to the index of its architecture."""
        tree = self.root.parent / "trees" / f"{name}_{version}_{architecture}"
        (tree / "DEBIAN").mkdir(parents=True)
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n"
            f"Maintainer: Nobody <nobody@example.org>\nDescription: {name}\n" + fields
        )
        (tree / "DEBIAN/control").write_text(control)
        (tree / f"usr/share/{name}").mkdir(parents=True)
        (tree / f"usr/share/{name}/content").write_bytes(name.encode() * max(1, size))
        pool = self.root / f"pool/main/{name[0]}/{name}"
        pool.mkdir(parents=True, exist_ok=True)
        made = pool / f"{name}_{version}_{architecture}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True
        )
        body = made.read_bytes()
        stanza = (
            f"{control}Filename: {made.relative_to(self.root)}\nSize: {len(body)}\n"
            f"SHA256: {hashlib.sha256(body).hexdigest()}\n"
        )
        for each in ("arm64", "amd64") if architecture == "all" else (architecture,):
            self.packages.setdefault(each, []).append(stanza)
        return made

    def source(self, name: str, version: str) -> None:
        """A source package of three files and a signature."""
        directory = self.root / f"pool/main/{name[0]}/{name}"
        directory.mkdir(parents=True, exist_ok=True)
        upstream = version.split("-")[0]
        rows = ""
        files = (f"{name}_{version}.dsc", f"{name}_{upstream}.orig.tar.xz", f"{name}_{version}.debian.tar.xz")
        for file in (*files, f"{name}_{upstream}.orig.tar.xz.asc"):
            (directory / file).write_text(file)
            rows += f" {hashlib.sha256(file.encode()).hexdigest()} {len(file)} {file}\n"
        self.sources.append(
            f"Package: {name}\nBinary: {name}\nVersion: {version}\nArchitecture: any\nFormat: 3.0 (quilt)\n"
            f"Maintainer: Nobody <nobody@example.org>\nDirectory: {directory.relative_to(self.root)}\n"
            f"Checksums-Sha256:\n{rows}"
        )

    def publish(self, date: str = "Sat, 01 Nov 2025 10:00:00 UTC") -> None:
        """Write the indices and sign them."""
        dists = self.root / "dists" / self.suite
        indices = {f"binary-{name}/Packages": self.packages.get(name, []) for name in ("amd64", "arm64")}
        indices["source/Sources"] = self.sources
        rows = ""
        for component in ("main", "non-free-firmware"):
            for name, stanzas in indices.items():
                text = "\n".join(stanzas) if component == "main" else ""
                path = dists / component / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                rows += f" {hashlib.sha256(text.encode()).hexdigest()} {len(text)} {component}/{name}\n"
        (dists / "Release").write_text(
            f"Origin: Debian\nSuite: {self.suite}\nCodename: {self.suite}\nDate: {date}\n"
            f"Architectures: amd64 arm64\nComponents: main non-free-firmware\nSHA256:\n{rows}"
        )
        (dists / "InRelease").unlink(missing_ok=True)
        self._gpg("--output", str(dists / "InRelease"), "--clearsign", str(dists / "Release"))
