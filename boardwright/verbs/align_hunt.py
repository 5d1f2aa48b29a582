"""``invoke align-hunt``: where a program makes accesses that Device memory does not take."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.errors import ExitStatus, HostError, InputError, Place
from boardwright.schema.suggest import nearest
from boardwright.verbs.bringup import built
from boardwright.verbs.common import Request, request, say

if TYPE_CHECKING:
    from boardwright.hunt.run import Outcome

LAB, MESA, TOPIC = "lab", "mesa-25.0", "aligned-access"
PATCHED, UNPATCHED, IMAGE = "patched", "unpatched", "image"


def align_hunt(
    root: Path,
    board: str,
    variant: str,
    program: str,
    mesa: str,
    gpu: str,
    files: str,
    env: str,
    seconds: int,
    fixup: bool,
    as_json: bool,
) -> int:
    """0: no site; 1: sites were found; 3: the lab is at fault, or the run proves nothing."""
    from boardwright.hunt.run import Hunt, hunt

    what = Hunt(
        program=program,
        gpu=_gpu(gpu),
        own_mesa=mesa != IMAGE,
        seconds=seconds,
        variables=_variables(env),
        fixup=fixup,
    )
    _own_mesa(mesa)
    if files and not Path(files).is_dir():
        raise InputError("--files: expected a directory", place=Place(files))
    asked = request(root, board, variant)
    image, manifest = built(asked)
    out = asked.out / "align-hunt"
    out.mkdir(parents=True, exist_ok=True)
    qemu_root, disks = _disks(asked, mesa, files, out)
    say(f"running {program!r} on {image.name} in QEMU, card {what.gpu}, Mesa {mesa}; transcript in {out}")
    found = hunt(image, asked.context.board, manifest, qemu_root, disks, out, what)
    _show(found, as_json)
    return ExitStatus.PRODUCT if found.report.sites else ExitStatus.OK


def _gpu(name: str) -> str:
    from boardwright.hunt.run import GPUS

    if name not in GPUS:
        raise InputError(
            f"no card {name!r}", hint=nearest(name, list(GPUS)) or f"there are {', '.join(GPUS)}"
        )
    return name


def _variables(text: str) -> dict[str, str]:
    found = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--env: expected NAME=VALUE, found {word!r}")
        found[name] = value
    return found


def _disks(asked: Request, mesa: str, files: str, out: Path) -> tuple[Path, dict[str, Path]]:
    """QEMU's environment and the tarballs for the lab's disks, built where they are missing."""
    from boardwright.build import executor
    from boardwright.kinds.board import QEMU_ENVIRONMENT
    from boardwright.kinds.meson import TREE
    from boardwright.verbs.build import builder

    own = _own_mesa(mesa)
    tree = f"{MESA}-without-{TOPIC}" if mesa in (UNPATCHED, IMAGE) else MESA
    wanted = [QEMU_ENVIRONMENT, LAB] + ([] if own else [tree])
    entries = executor.build(asked.plan(*wanted), builder(asked))
    disks = {
        "lab": entries[LAB].out / f"{LAB}.tar",
        "mesa": _unpacked(own, out / "mesa.tar") if own else entries[tree].out / TREE,
    }
    if files:
        disks["files"] = _packed(Path(files), out / "files.tar")
    return entries[QEMU_ENVIRONMENT].out / "root", disks


def _own_mesa(mesa: str) -> Path | None:
    """The user's own Mesa; None for one of ours. Raises ``InputError`` when it is neither."""
    words = [PATCHED, UNPATCHED, IMAGE]
    if mesa in words:
        return None
    path = Path(mesa)
    if not path.is_file():
        known = f"expected {', '.join(words)}, a .tar or a .deb, found {mesa!r}"
        raise InputError(f"--mesa: {known}", hint=nearest(mesa, words))
    return path


def _unpacked(path: Path, tar: Path) -> Path:
    """A tarball of what is in a .deb; any other file is taken for a tarball."""
    if path.suffix != ".deb":
        return path
    try:
        with tar.open("wb") as file:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], stdout=file, check=True)
    except FileNotFoundError:
        raise HostError(
            "dpkg-deb, which opens a .deb, is not installed", hint="give a .tar instead"
        ) from None
    except subprocess.CalledProcessError:
        raise InputError("not a .deb", place=Place(str(path))) from None
    return tar


def _packed(directory: Path, tar: Path) -> Path:
    with tarfile.open(tar, "w") as archive:
        archive.add(directory, arcname=".")
    return tar


def _show(found: Outcome, as_json: bool) -> None:
    from boardwright.hunt.report import table

    if as_json:
        print(json.dumps(_value(found), indent=2))
        return
    print(table(found.report), end="")
    if found.status:
        print(f"the program ended with status {found.status}")
    if again := found.fixup:
        counted = f"{again.counters.fixed} accesses done by the kernel, {again.counters.unfixed} refused"
        print(f"again with alignment_fixup on: ended with status {again.status}; {counted}")


def _value(found: Outcome) -> Mapping[str, object]:
    report = found.report
    return {
        "sites": [asdict(site) for site in report.sites],
        "faults": report.faults,
        "lost": report.lost,
        "mappings": report.mappings,
        "status": found.status,
        "fixup": asdict(found.fixup) if found.fixup else None,
    }
