"""``invoke build --vendor FILE.axp --vendor-sdk DIR``: the vendor's package with our root, layout, split."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build import digest, executor, sandbox
from boardwright.errors import HostError, InputError, Place, ProductError
from boardwright.kinds import emmc
from boardwright.verbs.build import builder, environment
from boardwright.verbs.common import Request, request, say

if TYPE_CHECKING:
    from boardwright.vendor.axera_package import Package
    from boardwright.vendor.rebuild import Rebuilt

TOOLS = "tools-image"
ENDED_WELL = {"e2fsck": (0, 1), "debugfs": (0,), "resize2fs": (0,), "dumpe2fs": (0,)}
"""``e2fsck`` ends with 1 when it corrected something (e2fsck(8))."""


def vendor_build(root: Path, board: str, variant: str, package: str, directory: str, jobs: int = 0) -> int:
    """The vendor's ``package``, the kernel of the vendor's SDK in ``directory``, or one with the other.

    Raises ``InputError`` for what is no package or no SDK, before anything is built.
    """
    from boardwright.vendor.axera_package import Package
    from boardwright.verbs.vendor_kernel import build_kernel, sdk_of

    asked = request(root, board, variant)
    if not emmc.is_emmc(asked.context):
        raise InputError(
            f"board {asked.board_name} takes no vendor's package and no vendor's SDK; maix-iv takes both"
        )
    if package and not Path(package).is_file():
        raise InputError("--vendor: expected an .axp file of the vendor", place=Place(package))
    if package and (asked.out / "vendor").resolve() in Path(package).resolve().parents:
        raise InputError(
            f"--vendor: expected a package outside {asked.out / 'vendor'}, which this build replaces",
            place=Place(package),
            hint="move it out of there first",
        )
    with Package(Path(package)) if package else contextlib.nullcontext() as opened:
        kernel = build_kernel(asked, sdk_of(directory), jobs) if directory else None
        if opened:
            _package(asked, opened, jobs, kernel)
    return 0


def _package(asked: Request, opened: Package, jobs: int, kernel: Path | None) -> None:
    """Build the root file system, and ``out/<board>/vendor/``: package, update files, manifest.

    ``kernel``: with its header, instead of the one in the package.
    """
    from boardwright.vendor.rebuild import Wish, rebuild

    table = emmc.table(asked.context)
    made_here = executor.build(asked.plan(emmc.FOR_VENDOR), builder(asked, jobs))[emmc.FOR_VENDOR].out
    tools, epoch = environment(asked, TOOLS), asked.context.lock(asked.context.board.rootfs.recipe).epoch
    wish = Wish(
        table=table,
        root=made_here / emmc.part_file(table.holding("rootfs").name),
        bootargs=emmc.bootargs(asked.context),
        split=emmc.split(asked.context),
        kernel=kernel,
        files={p.name: made_here / emmc.tar_file(p.name) for p in emmc.with_files(asked.context)},
        tool=lambda command, directory: _sealed(tools, command, directory, epoch),
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".vendor.", dir=asked.out))
    try:
        (partial / "work").mkdir()
        made = partial / f"{asked.board_name}.axp"
        report = rebuild(opened, wish, made, partial / "update", partial / "work")
        shutil.rmtree(partial / "work")
        manifest = _manifest(asked, opened.path, wish.bootargs, report, made)
        (partial / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        final = asked.out / "vendor"
        shutil.rmtree(final, ignore_errors=True)
        partial.chmod(0o755)
        partial.rename(final)
    except OSError as error:
        raise HostError(f"{asked.out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _summary(final, made.name, report, manifest)


def _sealed(root: Path, command: list[str], directory: Path, epoch: int) -> str:
    """Run a tool of the sealed environment with ``directory`` as ``/work``. Raises ``ProductError``."""
    seal = sandbox.Seal(
        root=root,
        writable={"/work": directory},
        variables={"E2FSPROGS_FAKE_TIME": str(epoch), "LC_ALL": "C.UTF-8"},
        directory="/work",
    )
    done = subprocess.run(
        sandbox.argv(seal, command),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode not in ENDED_WELL.get(command[0], (0,)):
        said = (done.stdout + done.stderr).strip()[-600:]
        raise ProductError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    return done.stdout + done.stderr


def _manifest(
    asked: Request, package: Path, bootargs: str, report: Rebuilt, made: Path
) -> Mapping[str, object]:
    return {
        "manifest": 1,
        "board": asked.board_name,
        "vendor": {"file": package.name, "sha256": digest.of_file(package)},
        "bootargs": bootargs,
        "kept": sorted(report.kept),
        "changed": report.changed,
        "notes": report.notes,
        "artifacts": {made.name: digest.of_file(made), **report.files},
        "evidence": "no board has seen this package; its formats are read back and checked",
    }


def _summary(out: Path, name: str, report: Rebuilt, manifest: Mapping[str, object]) -> None:
    artifacts = manifest["artifacts"]
    assert isinstance(artifacts, dict)
    say(f"{out / name}   {(out / name).stat().st_size / 2**20:.0f} MiB")
    say(f"  sha256 {artifacts[name]}")
    say(f"  kept: {', '.join(sorted(report.kept))}")
    for file, reason in report.changed.items():
        say(f"  changed: {file}: {reason}")
    say(f"  update files for SD card, USB stick and TFTP: {out / 'update'}")
