"""Debian roots: what mmdebstrap packed is normalized, what a host lacks is said, a failure leaves nothing."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from debian_archive import Archive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boardwright.build import debs, downloads, lock, mirror, roothost, roots, roottar, run
from boardwright.build.fetch import fetch
from boardwright.build.step import Download, Package, RootStep
from boardwright.errors import HostError, IntegrityError, ProductError
from boardwright.schema.recipe import EnvironmentRecipe

EPOCH = 1_700_000_000


def member(name: str, content: bytes | None = None, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    info.mode, info.size = 0o755 if content is None else 0o644, len(content or b"")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content or b""


def tarball(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


ROOT = (
    member("./"),
    member("./etc"),
    member("./etc/passwd", b"root", mtime=EPOCH + 99, uname="root", gname="root"),
    member("./etc/passwd-", b"root"),
    member("./etc/resolv.conf", b"nameserver 192.0.2.1"),
    member("./etc/hostname", b"build-host"),
    member("./etc/ssh"),
    member("./etc/ssh/ssh_host_rsa_key", b""),
    member("./etc/apt"),
    member("./etc/apt/sources.list", b"deb copy:///tmp/x ./"),
    member("./etc/shadow", b"!", mode=0o640, gid=42, mtime=EPOCH - 9),
    member("./dev"),
    member("./dev/null", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    member("./usr"),
    member("./usr/bin"),
    member("./usr/bin/su", b"ELF", mode=0o4755),
    member("./usr/bin/sg", b"", type=tarfile.LNKTYPE, linkname="./usr/bin/su"),
    member("./bin", b"", type=tarfile.SYMTYPE, linkname="usr/bin"),
    member("./tmp", mode=0o1777),
)


def test_a_rewritten_tarball_keeps_owners_and_modes_and_drops_traces_of_the_host(tmp_path: Path) -> None:
    source = tarball(tmp_path / "in.tar", *ROOT)
    roottar.rewrite(source, tmp_path / "out.tar", EPOCH)
    with tarfile.open(tmp_path / "out.tar") as archive:
        found = {info.name: info for info in archive}
        assert archive.extractfile("usr/bin/sg").read() == b"ELF"  # type: ignore[union-attr]
    assert sorted(found) == [
        *("bin", "dev", "etc", "etc/apt", "etc/passwd", "etc/shadow", "etc/ssh", "tmp", "usr", "usr/bin"),
        *("usr/bin/sg", "usr/bin/su"),
    ]
    assert (found["etc/shadow"].mode, found["etc/shadow"].gid) == (0o640, 42)
    assert found["usr/bin/su"].mode == 0o4755
    assert found["tmp"].mode == 0o1777
    assert found["etc/passwd"].mtime == EPOCH, "later times become the epoch"
    assert found["etc/shadow"].mtime == EPOCH - 9, "earlier times stay"
    assert not any(info.uname or info.gname for info in found.values())


def test_a_rewritten_tarball_keeps_capabilities_and_no_other_extended_header(tmp_path: Path) -> None:
    capability = {"SCHILY.xattr.security.capability": "\x01\x02", "ctime": "1.5", "atime": "2.5"}
    source = tarball(tmp_path / "in.tar", member("./ping", b"x", pax_headers=capability))
    roottar.rewrite(source, tmp_path / "out.tar", EPOCH)
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert archive.getmember("ping").pax_headers == {"SCHILY.xattr.security.capability": "\x01\x02"}


def test_a_tree_is_ours_and_has_no_special_bits(tmp_path: Path) -> None:
    roottar.unpack(tarball(tmp_path / "in.tar", *ROOT), tmp_path / "root", EPOCH)
    root = tmp_path / "root"
    assert oct((root / "usr/bin/su").stat().st_mode) == "0o100755"
    assert oct((root / "etc/shadow").stat().st_mode) == "0o100644"
    assert oct((root / "tmp").stat().st_mode) == "0o40755"
    assert (root / "usr/bin/su").samefile(root / "usr/bin/sg")
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "etc/shadow").stat().st_mtime == EPOCH - 9
    assert {path.stat().st_uid for path in root.rglob("*")} == {os.geteuid()}
    assert not (root / "dev/null").exists()


def test_a_tree_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    source = tarball(tmp_path / "in.tar", *ROOT)
    before = os.umask(0o077)
    try:
        roottar.unpack(source, tmp_path / "root", EPOCH)
    finally:
        os.umask(before)
    assert oct((tmp_path / "root/usr/bin").stat().st_mode) == "0o40755"
    assert oct((tmp_path / "root/etc/passwd").stat().st_mode) == "0o100644"


@pytest.mark.parametrize(
    "members",
    [
        [member("./../evil", b"x")],
        [member("a"), member("a/../../evil", b"x")],
        [member("a", b"", type=tarfile.SYMTYPE, linkname="/"), member("a/evil", b"x")],
        [member("a", b"", type=tarfile.SYMTYPE, linkname=".."), member("a/evil", b"x")],
        [member("a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
        [member("a", b"", type=tarfile.LNKTYPE, linkname="../evil")],
        [
            member("l", b"", type=tarfile.SYMTYPE, linkname="/etc"),
            member("a", b"", type=tarfile.LNKTYPE, linkname="l/passwd"),
        ],
    ],
)
def test_a_tarball_that_leads_out_of_the_root_is_refused(
    members: list[tuple[tarfile.TarInfo, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "evil").write_text("not of the root")
    source = tarball(tmp_path / "in.tar", *members)
    with pytest.raises(IntegrityError, match="the root's tarball"):
        roottar.unpack(source, tmp_path / "root", EPOCH)
    assert (tmp_path / "evil").read_text() == "not of the root"


def test_an_absolute_name_stays_inside(tmp_path: Path) -> None:
    roottar.unpack(tarball(tmp_path / "in.tar", member("/inside", b"x")), tmp_path / "root", EPOCH)
    assert (tmp_path / "root/inside").read_bytes() == b"x"


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(1, 5000), fields=st.sampled_from(["", "Section: x\n", "Section: xy\n"]))
def test_an_uncompressed_package_is_the_same_to_dpkg(
    size: int, fields: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("deb")
    archive = Archive(tmp_path / "archive", tmp_path / "gpg")
    packed = archive.deb("example", fields=fields, size=size)
    debs.uncompressed(packed, tmp_path / "plain.deb")

    def seen(command: str, file: Path) -> bytes:
        return subprocess.run(["dpkg-deb", command, file], check=True, capture_output=True).stdout

    for command in ("--fsys-tarfile", "--ctrl-tarfile", "--field", "--contents"):
        assert seen(command, packed) == seen(command, tmp_path / "plain.deb")


def test_what_is_no_package_is_an_integrity_error(tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_text("<html>")
    with pytest.raises(IntegrityError, match="no Debian package"):
        debs.control(tmp_path / "a.deb")


@pytest.fixture
def step(tmp_path: Path) -> tuple[RootStep, Path]:
    """A root of one package that cannot make a root, and the directory that holds it."""
    archive = Archive(tmp_path / "archive", tmp_path / "gpg")
    made = archive.deb("lonely", "1", "amd64")
    body = made.read_bytes()
    wanted = Package("lonely", "1", "amd64", f"pool/{made.name}", len(body), hashlib.sha256(body).hexdigest())
    kept = downloads.place(Download(wanted.path, wanted.size, wanted.sha256), tmp_path / "downloads")
    kept.parent.mkdir(parents=True)
    shutil.copyfile(made, kept)
    return RootStep("tools", "tools", "amd64", (wanted,), "root", EPOCH), tmp_path / "downloads"


def changed(step: RootStep, **fields: str) -> RootStep:
    package = step.packages[0]
    values = {name: getattr(package, name) for name in Package.__slots__} | fields
    return RootStep(step.name, step.title, step.architecture, (Package(**values),), step.output, step.epoch)


def left(directory: Path) -> list[str]:
    return [
        path.name for path in (*directory.iterdir(), *Path("/dev/shm").glob(f"boardwright.{os.getpid()}.*"))
    ]


def make(step: RootStep, kept: Path, directory: Path, line: Callable[[str], None] = print) -> None:
    (directory / "out").mkdir(parents=True)
    (directory / "log").touch()
    try:
        roots.make_root(step, kept, directory / "out" / step.output, directory / "log", line)
    except BaseException:
        assert left(directory / "out") == [], "nothing half-made stays"
        raise


def test_packages_that_make_no_root_end_with_mmdebstraps_last_lines(
    step: tuple[RootStep, Path], tmp_path: Path
) -> None:
    with pytest.raises(
        ProductError, match=r"(?s)mmdebstrap ended with \d+ while making tools.*\| E: "
    ) as caught:
        make(*step, tmp_path / "made")
    assert "invoke lock" in str(caught.value.hint)


def test_a_package_that_is_not_the_locked_one_is_refused(step: tuple[RootStep, Path], tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"is not lonely 2 amd64, as the lock says, but lonely 1 amd64"):
        make(changed(step[0], version="2"), step[1], tmp_path / "made")


def test_a_download_with_a_flipped_byte_is_never_used(step: tuple[RootStep, Path], tmp_path: Path) -> None:
    path = next(path for path in step[1].rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError, match="expected SHA-256"):
        make(*step, tmp_path / "made")


def test_without_mmdebstrap_the_error_says_what_to_install(
    step: tuple[RootStep, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="mmdebstrap is not installed"):
        make(*step, tmp_path / "made")


@pytest.mark.parametrize("entry", [None, "disabled\nflags: F\n", "enabled\nflags: P\n"])
def test_without_an_emulator_the_error_says_how_to_register_one(
    entry: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roothost, "_BINFMT", tmp_path)
    monkeypatch.setattr(roothost, "_register", lambda _: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    if entry:
        (tmp_path / "qemu-aarch64").write_text(entry)
    with pytest.raises(HostError, match="cannot run arm64 programs") as caught:
        roothost.require("arm64")
    for words in ("qemu-user-static", "mount binfmt_misc", "update-binfmts --enable qemu-aarch64"):
        assert words in str(caught.value.hint)


def test_a_registered_emulator_suffices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roothost, "_BINFMT", tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "qemu-aarch64").write_text("enabled\ninterpreter /usr/bin/qemu\nflags: POCF\n")
    roothost.require("arm64")


def test_a_user_without_numbers_for_a_namespace_is_told_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    monkeypatch.setattr("os.getuid", lambda: 4242)
    monkeypatch.setattr("getpass.getuser", lambda: "nobody-we-know")
    with pytest.raises(HostError) as caught:
        roothost.require("amd64")
    assert "run as root" in str(caught.value.hint)


def real(tmp_path: Path) -> tuple[RootStep, Path]:
    """The smallest root there is, from the mirror of this host."""
    recipe = EnvironmentRecipe(recipe="tiny", suite="trixie", packages=["kmod"])
    cache = Path(os.environ.get("BOARDWRIGHT_CACHE", tmp_path / "cache"))
    found = lock.resolve(recipe, mirror.mirrors(), cache)
    packages = tuple(
        Package(f.package, f.version, f.architecture, f.path, f.size, f.sha256) for f in found.files
    )
    fetch([Download(p.path, p.size, p.sha256) for p in packages], cache / "downloads", mirror.mirrors())
    return RootStep("tiny", "tiny", "amd64", packages, "root", found.epoch), cache / "downloads"


def listing(root: Path) -> list[tuple[str, int, float, bytes]]:
    return [
        (
            str(path.relative_to(root)),
            path.lstat().st_mode,
            path.lstat().st_mtime,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(root.rglob("*"))
    ]


@pytest.mark.e2e
def test_a_root_made_twice_is_the_same_whatever_the_host_is_set_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, kept = real(tmp_path)
    make(step, kept, tmp_path / "one")
    for name, value in {"TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "LC_ALL": "tr_TR.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(roots, "_fits_memory", lambda _: False)
    before = os.umask(0o077)
    try:
        make(step, kept, tmp_path / "two")
    finally:
        os.umask(before)
    assert listing(tmp_path / "one/out/root") == listing(tmp_path / "two/out/root")
    assert left(tmp_path / "two/out") == ["root"]
    installed = (tmp_path / "one/out/root/var/lib/dpkg/status").read_text()
    assert installed.count("Status: install ok installed") == len(step.packages)
    assert "boardwright" not in installed
    with pytest.raises(FileNotFoundError):
        (tmp_path / "one/out/root/etc/resolv.conf").stat()


def test_what_a_killed_build_left_is_removed_and_a_running_ones_is_not(tmp_path: Path) -> None:
    for name in ("boardwright.1.dead", "boardwright.2.live", "boardwright.3.fresh"):
        (tmp_path / name / "tmp").mkdir(parents=True)
        (tmp_path / name / "lock").touch()
        if "fresh" not in name:
            os.utime(tmp_path / name, (1, 1))
    with (tmp_path / "boardwright.2.live/lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        roots._sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boardwright.2.live", "boardwright.3.fresh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_nothing_is_removed_through_a_mount(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "area/tmp/root/dev/shm").mkdir(parents=True)
    inside = tmp_path / "area/tmp/root/dev/shm"
    subprocess.run(["mount", "--bind", tmp_path / "precious", inside], check=True)
    roots._remove(tmp_path / "area")
    assert not (tmp_path / "area").exists()
    assert (tmp_path / "precious/file").exists()


@pytest.mark.e2e
def test_stopping_ends_mmdebstrap_and_leaves_nothing(tmp_path: Path) -> None:
    step, kept = real(tmp_path)
    stopper = threading.Thread(target=run.stop_all)

    def stop_when_installing(text: str) -> None:
        if "installing essential" in text:
            stopper.start()

    try:
        with pytest.raises(run.Stopped):
            make(step, kept, tmp_path / "made", stop_when_installing)
    finally:
        stopper.join()
        run.resume()
    assert f"boardwright.{os.getpid()}." not in Path("/proc/self/mounts").read_text()
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"boardwright.{os.getpid()}." not in shown
