"""Debian roots from locked packages, with mmdebstrap and without a network.

mmdebstrap is given a package index of our own that holds exactly the locked packages, so there is nothing
else apt could choose. It works as root, and as a user through user namespaces. Its result is normalized by
:mod:`boardwright.build.roottar`, because mmdebstrap 1.3 and 1.5 leave slightly different traces.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from boardwright.build import roottar, run
from boardwright.build.downloads import verified
from boardwright.build.step import Download, Package, RootStep
from boardwright.errors import BoardwrightError, HostError, IntegrityError, ProductError

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture to the kernel's."""
_BINFMT = Path("/proc/sys/fs/binfmt_misc")


def make_root(
    step: RootStep,
    downloads: Path,
    destination: Path,
    log: Path,
    line: Callable[[str], None] = lambda _: None,
) -> None:
    """Make ``destination``, a tree or a tarball, from packages that are already in ``downloads``.

    Raises ``HostError`` when the host lacks what mmdebstrap needs, ``IntegrityError`` when a download is
    not the locked package, ``ProductError`` when packages do not install. Leaves nothing else behind.
    """
    require(step.architecture)
    with _area(destination) as area:
        _repository(step.packages, downloads, area / "repository")
        made = area / "root.tar"
        _bootstrap(step, area, made, log, line)
        line("unpacking" if step.output == "root" else "packing")
        if step.output == "root":
            roottar.unpack(made, destination, step.epoch)
        else:
            roottar.rewrite(made, destination, step.epoch)


def require(architecture: str) -> None:
    """Raise ``HostError`` unless this host can make a root of ``architecture``."""
    if shutil.which("mmdebstrap") is None:
        raise HostError(
            "mmdebstrap is not installed", hint="run ./bootstrap, or install the package mmdebstrap"
        )
    if os.geteuid() != 0:
        _require_user_namespaces()
    if platform.machine() != _MACHINES[architecture]:
        _require_emulation(architecture)


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
    if _is_registered(machine):
        return
    if os.geteuid() == 0:
        _register(machine)
        if _is_registered(machine):
            return
    raise HostError(
        f"this host cannot run {architecture} programs: no emulator is registered for {machine}",
        hint="install qemu-user-static and binfmt-support, then as root: mount binfmt_misc -t binfmt_misc "
        f"{_BINFMT}; update-binfmts --enable qemu-{machine}",
    )


def _is_registered(machine: str) -> bool:
    try:
        text = (_BINFMT / f"qemu-{machine}").read_text()
    except OSError:
        return False
    return text.startswith("enabled") and re.search(r"^flags: .*F", text, re.MULTILINE) is not None


def _register(machine: str) -> None:
    """Containers often have neither the mount nor the registration; root can make both."""
    if not (_BINFMT / "register").exists():
        _quietly("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
    if shutil.which("update-binfmts"):
        _quietly("update-binfmts", "--enable", f"qemu-{machine}")
    setting = Path(f"/usr/lib/binfmt.d/qemu-{machine}.conf")
    if not _is_registered(machine) and setting.exists():
        with contextlib.suppress(OSError):
            (_BINFMT / "register").write_text(setting.read_text().strip())


def _quietly(*command: str) -> None:
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def _area(destination: Path) -> Iterator[Path]:
    """A directory to work in, beside the destination for root; gone afterwards.

    Inside a user's namespace root is another user, who may not enter a private home: for users it lies
    below ``TMPDIR`` or ``/var/tmp``.
    """
    where = destination.parent if os.geteuid() == 0 else Path(os.environ.get("TMPDIR", "/var/tmp"))
    area = Path(tempfile.mkdtemp(prefix=f"boardwright.{os.getpid()}.", dir=where))
    try:
        area.chmod(0o755)
        (area / "tmp").mkdir()
        (area / "tmp").chmod(0o777)
        yield area
    finally:
        if os.geteuid() != 0 and any((area / "tmp").iterdir()):
            _quietly("mmdebstrap", "--unshare-helper", "rm", "-rf", *map(str, (area / "tmp").iterdir()))
        shutil.rmtree(area, ignore_errors=True)


def _repository(packages: tuple[Package, ...], downloads: Path, directory: Path) -> None:
    """A flat apt repository of the packages: ``Packages`` beside the files it names."""
    directory.mkdir()
    reachable = os.geteuid() == 0

    def stanza(package: Package) -> str:
        file = verified(Download(package.path, package.size, package.sha256), downloads)
        name = Path(package.path).name
        if reachable:
            (directory / name).symlink_to(file)
        else:
            shutil.copyfile(file, directory / name)
        control = _control(file, package)
        return f"{control}Filename: ./{name}\nSize: {package.size}\nSHA256: {package.sha256}\n"

    with ThreadPoolExecutor(4) as pool:
        text = "\n".join(pool.map(stanza, packages))
    (directory / "Packages").write_text(text)


def _control(file: Path, package: Package) -> str:
    """The control fields of a .deb, which must be those of the locked package."""
    done = subprocess.run(
        ["dpkg-deb", "--field", file], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    fields = dict(re.findall(r"^(Package|Version|Architecture): (.+)$", done.stdout, re.MULTILINE))
    found = [fields.get(name) for name in ("Package", "Version", "Architecture")]
    if found != [package.name, package.version, package.architecture]:
        raise IntegrityError(
            f"{package.path} is not {package.name} {package.version} {package.architecture}, "
            f"as the lock says, but {' '.join(map(str, found))}",
            hint="the lock was edited by hand: run `invoke lock`",
        )
    return done.stdout


def _bootstrap(step: RootStep, area: Path, made: Path, log: Path, line: Callable[[str], None]) -> None:
    command = [
        "mmdebstrap",
        "--mode=root" if os.geteuid() == 0 else "--mode=unshare",
        "--variant=essential",
        "--format=tar",
        f"--architectures={step.architecture}",
        f"--include={','.join(package.name for package in step.packages)}",
        # We have looked for the emulator ourselves, and arch-test need not be installed.
        "--skip=check/qemu",
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
    shown = "\n".join(f"  | {line}" for line in text.splitlines()[-20:])
    message = f"mmdebstrap ended with {status} while making {step.name}; its last lines:\n{shown}"
    if "No space left on device" in text:
        return HostError(message, hint="the disk is full: make room there")
    if re.search(r"unshare\(\) failed|newuidmap|cannot create user namespace", text):
        return HostError(message, hint="this host does not allow user namespaces: run as root")
    return ProductError(message, hint="if packages do not fit together, run `invoke lock` for this recipe")
