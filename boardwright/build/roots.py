"""Debian roots from locked packages, with mmdebstrap and without a network.

mmdebstrap is given a package index of our own that holds exactly the locked packages, so there is nothing
else apt could choose. It works as root, and as a user through user namespaces. Its result is normalized by
:mod:`boardwright.build.roottar`, because mmdebstrap 1.3 and 1.5 leave slightly different traces.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from boardwright.build import debs, digest, roottar, run
from boardwright.build.downloads import verified
from boardwright.build.roothost import is_emulated, isolation, quietly, require
from boardwright.build.step import Built, Download, Package, RootStep
from boardwright.errors import BoardwrightError, HostError, IntegrityError, ProductError

_MEMORY = Path("/dev/shm")
_NO_HOST_KEYS = (
    'mkdir -p "$1/etc/ssh" && touch "$1/etc/ssh/ssh_host_rsa_key" '
    '"$1/etc/ssh/ssh_host_ecdsa_key" "$1/etc/ssh/ssh_host_ed25519_key"'
)
"""Debian's openssh-server makes the keys that are not there yet; an image must not carry any, and they
would differ in every build. :mod:`boardwright.build.roottar` leaves these empty files out."""


def make_root(
    step: RootStep,
    downloads: Path,
    destination: Path,
    log: Path,
    line: Callable[[str], None] = lambda _: None,
    built: Mapping[Built, Path] = MappingProxyType({}),
) -> None:
    """Make ``destination``, a tree or a tarball, from packages that are already in ``downloads``.

    ``built``: where the packages of ``step.built`` are. Raises ``HostError`` when the host lacks what
    mmdebstrap needs, ``IntegrityError`` when a package is not the one the lock or the step names,
    ``ProductError`` when packages do not install. Leaves nothing else behind.
    """
    require(step.architecture)
    with _area(step, destination) as area:
        line(f"preparing {len(step.packages) + len(built)} packages")
        _repository(step, downloads, built, area / "repository")
        made = area / "root.tar"
        _bootstrap(step, area, made, log, line)
        shutil.rmtree(area / "repository")
        line("unpacking" if step.output == "root" else "packing")
        if step.output == "root":
            roottar.unpack(made, destination, step.epoch)
        else:
            roottar.rewrite(made, destination, step.epoch)


@contextlib.contextmanager
def _area(step: RootStep, destination: Path) -> Iterator[Path]:
    """A directory to work in, gone afterwards: in memory when there is plenty of it.

    dpkg waits for the disk after every file of its database: 54 s for the tools of an image on a busy
    disk, 17 s in memory. On disk it lies beside the destination for root; inside a user's namespace root
    is another user, who may not enter a private home, so for users it lies in ``TMPDIR`` or ``/var/tmp``.
    """
    beside = destination.parent if os.geteuid() == 0 else Path(os.environ.get("TMPDIR", "/var/tmp"))
    where = _MEMORY if _fits_memory(step) else beside
    _sweep(where)
    area = Path(tempfile.mkdtemp(prefix=f"boardwright.{os.getpid()}.", dir=where))
    try:
        with (area / "lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            area.chmod(0o755)
            (area / "tmp").mkdir()
            (area / "tmp").chmod(0o777)
            yield area
    finally:
        _remove(area)


def _sweep(where: Path) -> None:
    """Remove the areas of builds that were killed: their locks are free, and they are not brand-new."""
    for area in where.glob("boardwright.*.*"):
        with contextlib.suppress(OSError):
            if time.time() - area.stat().st_mtime > 60:
                with (area / "lock").open("r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(area)


def _remove(area: Path) -> None:
    """Remove the area, and never anything through a mount that a killed mmdebstrap left in it."""
    for point in reversed(_mounts_below(area)):
        quietly("umount", "--lazy", point)
    if mounted := _mounts_below(area):
        raise HostError(
            f"{mounted[-1]} is still mounted", hint=f"unmount what is below {area}, then remove it"
        )
    if os.geteuid() != 0 and (area / "tmp").is_dir() and any((area / "tmp").iterdir()):
        quietly("mmdebstrap", "--unshare-helper", "rm", "-rf", *map(str, (area / "tmp").iterdir()))
    shutil.rmtree(area, ignore_errors=True)


def _mounts_below(area: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [point for line in lines if (point := line.split()[1]).startswith(f"{area}/")]


def _fits_memory(step: RootStep) -> bool:
    """Whether a root takes less than half of the free memory: unpacked, packages unpacked, both copied.

    Unpacked, Debian's packages are four to five times their size.
    """
    needed = 20 * sum(package.size for package in step.packages)
    try:
        disk = os.statvfs(_MEMORY)
        if disk.f_flag & os.ST_NOEXEC:
            return False
        return needed < min(disk.f_bavail * disk.f_frsize, *_free_memory()) // 2
    except OSError:
        return False


def _free_memory() -> Iterator[int]:
    """Free memory of the machine and, in a container, of its control group, in bytes."""
    found = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    yield int(found.group(1)) * 1024 if found else 0
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        yield int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())


def _repository(step: RootStep, downloads: Path, built: Mapping[Built, Path], directory: Path) -> None:
    """A flat apt repository of the packages: ``Packages`` beside the files it names."""
    directory.mkdir()
    directory.chmod(0o755)

    def stanza(package: Package | Built) -> str:
        if isinstance(package, Built):
            file = built[package]
        else:
            file = verified(Download(package.path, package.size, package.sha256), downloads)
        made = directory / _file_name(package)
        if is_emulated(step.architecture):
            debs.uncompressed(file, made)
        elif os.geteuid() == 0:
            made.symlink_to(file)
        else:
            shutil.copyfile(file, made)
        if not made.is_symlink():
            made.chmod(0o644)
        index = {"Filename": f"./{made.name}", "Size": made.stat().st_size, "SHA256": digest.of_file(made)}
        return _control(file, package) + "".join(f"{name}: {value}\n" for name, value in index.items())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        text = "\n".join(pool.map(stanza, [*step.packages, *step.built]))
    (directory / "Packages").write_text(text)
    (directory / "Packages").chmod(0o644)


def _file_name(package: Package | Built) -> str:
    """The name of a package's file in the repository."""
    return Path(package.output.path if isinstance(package, Built) else package.path).name


def _control(file: Path, package: Package | Built) -> str:
    """The control fields of a .deb, which must be those of the locked or built package."""
    text = debs.control(file)
    fields = dict(re.findall(r"^(Package|Version|Architecture): (.+)$", text, re.MULTILINE))
    found = [fields.get(name) for name in ("Package", "Version", "Architecture")]
    if found != [package.name, package.version, package.architecture]:
        raise IntegrityError(
            f"{_file_name(package)} is not {package.name} {package.version} {package.architecture}, "
            f"as the lock says, but {' '.join(map(str, found))}",
            hint="the lock was edited by hand: run `invoke lock`",
        )
    return text


def _bootstrap(step: RootStep, area: Path, made: Path, log: Path, line: Callable[[str], None]) -> None:
    names = [*(package.name for package in step.packages), *(package.name for package in step.built)]
    command = [
        *isolation(),
        "mmdebstrap",
        "--mode=root" if os.geteuid() == 0 else "--mode=unshare",
        "--variant=essential",
        "--format=tar",
        f"--architectures={step.architecture}",
        f"--include={','.join(names)}",
        # We have looked for the emulator ourselves, and arch-test need not be installed.
        "--skip=check/qemu",
        *([f"--essential-hook={_NO_HOST_KEYS}"] if "openssh-server" in names else []),
        *step.options,
        "",
        str(made),
        f"deb [trusted=yes] copy://{area}/repository ./",
    ]
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(area / "tmp"),
        "SOURCE_DATE_EPOCH": str(step.epoch),
    }
    if os.geteuid() != 0:
        made.touch()
    status = run.run(command, log, line=line, environment=variables)
    if status != 0:
        raise _failure(step, status, log)


def _failure(step: RootStep, status: int, log: Path) -> BoardwrightError:
    text = log.read_text(errors="replace")
    shown = "\n".join(f"  | {line}" for line in run.tail(log))
    message = f"mmdebstrap ended with {status} while making {step.name}; its last lines:\n{shown}"
    if "No space left on device" in text:
        return HostError(message, hint="the disk is full: make room there")
    if re.search(r"unshare\(\) failed|newuidmap|cannot create user namespace", text):
        return HostError(message, hint="this host does not allow user namespaces: run as root")
    return ProductError(message, hint="if packages do not fit together, run `invoke lock` for this recipe")
