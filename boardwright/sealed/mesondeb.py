"""A .deb from what meson installed, for a recipe that says which packages it needs and replaces.

Runs inside the sandbox: standard library, ``dpkg-deb`` and the cross binutils. What the libraries need is
read from their ELF headers; the recipe must declare exactly the packages those libraries come from, since
apt was told of them when the lock was made.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

TOOLS = "aarch64-linux-gnu-"
DEVELOPMENT = ("usr/include/*", "*.pc", "*.a")
"""What a package of shared libraries leaves to its -dev package."""


class PackageError(Exception):
    """The package would not be what the recipe says; the text says how."""


def installed(tree: Path, beside: Sequence[str]) -> list[str]:
    """Paths of files and links below ``tree`` that belong into the package."""
    left = (*DEVELOPMENT, *beside)
    return [
        path
        for path in sorted(str(file.relative_to(tree)) for file in tree.rglob("*") if _is_file(file))
        if not any(fnmatch.fnmatch(path, pattern) for pattern in left)
        and not _is_development_link(tree, path)
    ]


def _is_file(file: Path) -> bool:
    return file.is_symlink() or file.is_file()


def _is_development_link(tree: Path, path: str) -> bool:
    """``libgbm.so`` that only leads to ``libgbm.so.1``, for linkers."""
    return path.endswith(".so") and (tree / path).is_symlink() and ".so." in str((tree / path).readlink())


def is_elf(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def needed(files: Iterable[Path]) -> set[str]:
    """The shared libraries (``DT_NEEDED``) that ELF files ask for."""
    found: set[str] = set()
    for file in files:
        text = _output(f"{TOOLS}readelf", "--dynamic", "--wide", str(file))
        found |= set(re.findall(r"\(NEEDED\) +Shared library: \[([^\]]+)\]", text))
    return found


def providers(debs: Iterable[Path]) -> dict[str, str]:
    """Library file name -> package, for the libraries in packages."""
    found: dict[str, str] = {}
    for deb in debs:
        name = _output("dpkg-deb", "--field", str(deb), "Package").strip()
        for line in _output("dpkg-deb", "--contents", str(deb)).splitlines():
            path = line.split(None, 5)[-1].split(" -> ")[0]
            if re.search(r"/lib/(?:[^/]+/)?[^/]+\.so[^/]*$", path):
                found[path.rsplit("/", 1)[1]] = name
    return found


def check_depends(wanted: set[str], own: set[str], known: Mapping[str, str], declared: set[str]) -> None:
    """``declared`` must be the packages of the libraries ``wanted`` that are not the package's ``own``."""
    unknown = sorted(name for name in wanted - own if name not in known)
    if unknown:
        raise PackageError(f"no package of `libraries` has {', '.join(unknown)}")
    found = {known[name] for name in wanted - own}
    if found != declared:
        missing, idle = sorted(found - declared), sorted(declared - found)
        text = [f"needs {', '.join(missing)}"] if missing else []
        text += [f"does not need {', '.join(idle)}"] if idle else []
        raise PackageError(f"deb.depends of the recipe is wrong: the package {' and '.join(text)}")


def fill(tree: Path, paths: Sequence[str], root: Path) -> None:
    """Copy the package's files to ``root``, programs and libraries stripped."""
    for path in paths:
        source, target = tree / path, root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        if is_elf(target):
            subprocess.run([f"{TOOLS}strip", "--strip-unneeded", str(target)], check=True)


def describe(root: Path, control: str) -> None:
    """``DEBIAN/control`` and ``DEBIAN/md5sums``, and the same owner and mode for every file."""
    files = sorted(file for file in root.rglob("*") if file.is_file() and not file.is_symlink())
    size = sum(-(-file.stat().st_size // 1024) for file in files)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    meta = root / "DEBIAN"
    meta.mkdir()
    meta.chmod(0o755)
    (meta / "control").write_text(f"{control.rstrip()}\nInstalled-Size: {size}\n".replace("\n\n", "\n"))
    (meta / "md5sums").write_text("".join(_sums(root, files)))


def _sums(root: Path, files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        yield f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(root)}\n"


def build(given: argparse.Namespace) -> None:
    """Make the .deb. Raises ``PackageError``."""
    control = given.control.read_text()
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line)
    paths = installed(given.tree, given.beside.split())
    elves = [given.tree / path for path in paths if is_elf(given.tree / path)]
    if not elves:
        raise PackageError("nothing was installed that a package could hold")
    declared = {name for name in re.split(r", *", fields.get("Depends", "")) if name}
    own = {Path(path).name for path in paths}
    check_depends(needed(elves), own, providers(sorted(given.sysroot.glob("*.deb"))), declared)
    root = Path("/work/deb")
    fill(given.tree, paths, root)
    document = root / "usr/share/doc" / fields["Package"] / "copyright"
    document.parent.mkdir(parents=True)
    shutil.copyfile(given.copyright, document)
    describe(root, control)
    options = ["--root-owner-group", "-Zxz", "--threads-max=1"]
    subprocess.run(["dpkg-deb", *options, "--build", str(root), str(given.deb)], check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 0 when done, 1 when the package would be wrong."""
    parser = argparse.ArgumentParser(description="A .deb from what meson installed.")
    for name in ("tree", "copyright", "sysroot", "control", "deb"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--beside", default="", help="globs of paths that stay out")
    try:
        build(parser.parse_args(arguments))
    except PackageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
