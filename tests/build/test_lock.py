"""Locks, resolved by the real apt from a small signed archive behind a real mirror."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from debian_archive import Archive
from mirror_server import MirrorServer, broken, serving

from boardwright.build import apt, lock, mirror
from boardwright.errors import HostError, InputError
from boardwright.kinds.debs import control
from boardwright.schema.lock import Lock, LockedFile, has_lock
from boardwright.schema.recipe import (
    DebianKernelRecipe,
    DebianPackage,
    DebianSource,
    EnvironmentRecipe,
    ImageRecipe,
    KernelRecipe,
    LoaderRecipe,
    MesonRecipe,
    RootfsRecipe,
)

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("gpg")), reason="needs apt and gpg"
)


@pytest.fixture(scope="module")
def archive() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory(prefix="bw") as name:  # short: gpg-agent's socket has 108 characters
        made = Archive(Path(name) / "archive", Path(name) / "gpg")
        made.root.mkdir()
        made.make_key()
        made.deb("libc6", "2.41-12", "arm64")
        made.deb("bash", "5.2-1", "arm64", "Essential: yes\nPre-Depends: libc6\n")
        made.deb("bash", "5.2-1", "amd64", "Essential: yes\n")
        made.deb("apt", "3.0", "arm64")
        made.deb("kmscube", "0.1", "arm64", "Depends: libc6, libdrm2\nRecommends: extra\n")
        made.deb("libdrm2", "2.4-1", "arm64", "Depends: libdrm-common (= 2.4-1)\n")
        made.deb("libdrm-common", "2.4-1", "all")
        made.deb("extra", "1", "arm64")
        made.deb("broken", "1", "arm64", "Depends: nowhere (>= 2)\n")
        made.deb("busybox-static", "1.37-1", "arm64", "Depends: libc6\n")
        made.deb("linux-image-arm64", "6.12.9-1", "arm64", "Depends: linux-image-6.12.9-arm64 (= 6.12.9-1)\n")
        made.deb("linux-image-6.12.9-arm64", "6.12.9-1", "arm64", "Depends: kmod, initramfs-tools\n")
        made.deb("linux-source-6.12", "6.12.9-1", "all", "Depends: bison\n")
        made.deb("libgbm1", "25.0.7-2", "arm64", "Depends: libllvm19\n")
        made.deb("libllvm19", "19.1-1", "arm64")
        made.deb("glmark2", "2023.1", "arm64", "Depends: libgbm1 (>= 21)\n")
        made.deb("libdrm-dev", "2.4-1", "arm64", "Depends: libdrm2, broken\n")
        made.source("mesa", "25.0.7-2")
        made.source("u-boot", "2025.01-2")
        made.source("u-boot", "2025.01-10")
        made.source("arm-trusted-firmware", "2.12-1")
        made.publish()
        yield made


@pytest.fixture
def server(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Iterator[MirrorServer]:
    monkeypatch.setattr(apt, "KEYRING", archive.keyring)
    monkeypatch.setattr(mirror, "apt_options", dict)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as server:
        server.publish(archive.root)
        yield server


def rootfs(*packages: str) -> RootfsRecipe:
    return RootfsRecipe(recipe="rootfs", environment="tools", suite="trixie", packages=list(packages))


def names(found: Lock) -> list[str]:
    return [file.package for file in found.files]


def test_a_root_is_apt_and_what_is_essential_or_asked_for_with_dependencies_and_without_recommendations(
    server: MirrorServer, archive: Archive, tmp_path: Path
) -> None:
    found = lock.resolve(rootfs("kmscube"), (server.address,), tmp_path)
    assert names(found) == ["apt", "bash", "kmscube", "libc6", "libdrm-common", "libdrm2"]
    cube = found.files[2]
    made = archive.root / cube.path
    assert (cube.version, cube.architecture, cube.size) == ("0.1", "arm64", made.stat().st_size)
    assert found.files[4].architecture == "all"


def test_an_environment_is_resolved_for_its_own_architecture(server: MirrorServer, tmp_path: Path) -> None:
    recipe = EnvironmentRecipe(recipe="tools", suite="trixie", packages=["libdrm-common"])
    found = lock.resolve(recipe, (server.address,), tmp_path)
    assert [(file.package, file.architecture) for file in found.files] == [
        ("bash", "amd64"),
        ("libdrm-common", "all"),
    ]


def test_the_epoch_is_the_date_of_the_release(server: MirrorServer, tmp_path: Path) -> None:
    assert lock.resolve(rootfs("bash"), (server.address,), tmp_path).epoch == 1761991200


def test_resolving_twice_gives_the_same_bytes(server: MirrorServer, tmp_path: Path) -> None:
    one = lock.resolve(rootfs("kmscube", "extra"), (server.address,), tmp_path / "one")
    two = lock.resolve(rootfs("kmscube", "extra"), (server.address,), tmp_path / "two")
    assert lock.text(one) == lock.text(two)


def test_a_package_that_does_not_exist_is_an_error_at_its_line_with_the_nearest_name(
    server: MirrorServer, tmp_path: Path
) -> None:
    file = tmp_path / "rootfs.yaml"
    file.write_text("recipe: rootfs\npackages:\n  - bash\n  - kmscub\n")
    with pytest.raises(InputError) as caught:
        lock.resolve(rootfs("bash", "kmscub"), (server.address,), tmp_path, file=file)
    assert str(caught.value.place) == f"{file}:4"
    assert caught.value.hint == "did you mean 'kmscube'?"


def test_a_dependency_that_cannot_be_met_is_named(server: MirrorServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)cannot install.*broken : Depends: nowhere \(>= 2\)"):
        lock.resolve(rootfs("broken"), (server.address,), tmp_path)


def test_a_debian_kernel_is_the_package_behind_the_metapackage_and_busybox_without_dependencies(
    server: MirrorServer, tmp_path: Path
) -> None:
    recipe = DebianKernelRecipe(
        recipe="k", environment="tools", suite="trixie", package="linux-image-arm64", modules=[]
    )
    found = lock.resolve(recipe, (server.address,), tmp_path)
    assert names(found) == ["busybox-static", "linux-image-6.12.9-arm64"]


def test_a_kernel_source_is_one_package(server: MirrorServer, tmp_path: Path) -> None:
    source = DebianSource(debian="linux-source-6.12", suite="trixie")
    recipe = KernelRecipe(recipe="linux", environment="tools", source=source)
    assert names(lock.resolve(recipe, (server.address,), tmp_path)) == ["linux-source-6.12"]


def test_a_loader_is_the_archives_of_the_newest_source_packages(server: MirrorServer, tmp_path: Path) -> None:
    recipe = LoaderRecipe(
        recipe="loader",
        environment="tools",
        source=DebianSource(debian="u-boot", suite="trixie", as_="source"),
        firmware=DebianSource(debian="arm-trusted-firmware", suite="trixie", as_="source"),
        defconfig="x_defconfig",
        platform="rk3588",
    )
    found = lock.resolve(recipe, (server.address,), tmp_path)
    assert [Path(file.path).name for file in found.files] == [
        "arm-trusted-firmware_2.12-1.debian.tar.xz",
        "arm-trusted-firmware_2.12.orig.tar.xz",
        "u-boot_2025.01-10.debian.tar.xz",
        "u-boot_2025.01.orig.tar.xz",
    ]
    assert {file.architecture for file in found.files} == {"source"}


def mesa(**given: object) -> MesonRecipe:
    source = DebianSource(debian="mesa", suite="trixie", as_="source")
    fields: dict[str, object] = {"source": source, "libraries": ["libdrm-dev"], **given}
    return MesonRecipe(recipe="mesa", environment="tools", **fields)  # type: ignore[arg-type]


def test_a_meson_recipe_is_a_source_and_exactly_its_libraries(server: MirrorServer, tmp_path: Path) -> None:
    found = lock.resolve(mesa(), (server.address,), tmp_path)
    assert [(file.package, file.architecture) for file in found.files] == [
        ("libdrm-dev", "arm64"),
        ("mesa", "source"),
        ("mesa", "source"),
    ]


def test_a_package_built_here_takes_the_place_of_what_it_replaces(
    server: MirrorServer, tmp_path: Path
) -> None:
    recipe = mesa(deb=DebianPackage("our-mesa", "Ours", ["libdrm2"], ["libgbm1"]))
    built = {"our-mesa": control(recipe, lock.resolve(recipe, (server.address,), tmp_path))}
    asked = rootfs("bash", "glmark2", "libgbm1")
    found = names(lock.resolve(asked, (server.address,), tmp_path, built=built))
    assert found == ["apt", "bash", "glmark2", "libc6", "libdrm-common", "libdrm2"]
    assert "libllvm19" in names(lock.resolve(asked, (server.address,), tmp_path))


def test_a_package_built_here_that_cannot_be_installed_is_an_error(
    server: MirrorServer, tmp_path: Path
) -> None:
    recipe = mesa(deb=DebianPackage("our-mesa", "Ours", ["libnowhere9"]))
    built = {"our-mesa": control(recipe, lock.resolve(recipe, (server.address,), tmp_path))}
    with pytest.raises(InputError, match="our-mesa : Depends: libnowhere9"):
        lock.resolve(rootfs("bash"), (server.address,), tmp_path, built=built)


def test_a_source_package_that_does_not_exist_is_an_error(server: MirrorServer, tmp_path: Path) -> None:
    source = DebianSource(debian="u-bot", suite="trixie", as_="source")
    recipe = LoaderRecipe(
        recipe="l", environment="t", source=source, firmware=source, defconfig="", platform=""
    )
    with pytest.raises(InputError, match="no package 'u-bot'") as caught:
        lock.resolve(recipe, (server.address,), tmp_path)
    assert caught.value.hint == "did you mean 'u-boot'?"


def test_a_recipe_that_takes_nothing_has_no_lock(server: MirrorServer, tmp_path: Path) -> None:
    recipe = ImageRecipe(recipe="image", environment="tools")
    assert not has_lock(recipe)
    with pytest.raises(InputError, match="takes nothing from a mirror"):
        lock.resolve(recipe, (server.address,), tmp_path)


def test_a_mirror_that_fails_is_followed_by_the_next(server: MirrorServer, tmp_path: Path) -> None:
    with serving() as empty:
        found = lock.resolve(rootfs("bash"), (empty.address, server.address), tmp_path)
        assert names(found) == ["apt", "bash", "libc6"]
        assert empty.requests


def test_without_a_working_mirror_every_reason_is_given(server: MirrorServer, tmp_path: Path) -> None:
    with serving() as empty, pytest.raises(HostError) as caught:
        lock.resolve(rootfs("bash"), (empty.address, f"{server.address}/nowhere"), tmp_path)
    assert empty.address in caught.value.message
    assert "/nowhere" in caught.value.message
    assert "BOARDWRIGHT_MIRROR=" in str(caught.value.hint)


def test_an_index_that_was_changed_after_signing_is_refused(server: MirrorServer, tmp_path: Path) -> None:
    path = "/dists/trixie/InRelease"
    server.files[path] = server.files[path].replace(b"Codename: trixie", b"Codename: trixio")
    with pytest.raises(HostError, match="cannot be used"):
        lock.resolve(rootfs("bash"), (server.address,), tmp_path)


def test_an_index_signed_by_a_stranger_is_refused(
    server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="bw") as name:
        stranger = Archive(Path(name) / "archive", Path(name) / "gpg")
        stranger.make_key()
        monkeypatch.setattr(apt, "KEYRING", stranger.keyring)
        with pytest.raises(HostError, match=r"cannot be used.*(NO_PUBKEY|[Mm]issing key|not signed)"):
            lock.resolve(rootfs("bash"), (server.address,), tmp_path)


def test_a_packages_file_that_is_not_the_signed_one_is_refused(server: MirrorServer, tmp_path: Path) -> None:
    path = "/dists/trixie/main/binary-arm64/Packages"
    server.files[path] = server.files[path].replace(b"Version: 0.1", b"Version: 0.2")
    with pytest.raises(HostError, match="cannot be used"):
        lock.resolve(rootfs("bash"), (server.address,), tmp_path)


def test_a_server_error_is_a_host_error(server: MirrorServer, tmp_path: Path) -> None:
    server.always["/dists/trixie/InRelease"] = broken
    with pytest.raises(HostError, match="500"):
        lock.resolve(rootfs("bash"), (server.address,), tmp_path)


def test_without_apt_the_error_says_where_locks_are_made(
    server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="apt-get is not installed"):
        lock.resolve(rootfs("bash"), (server.address,), tmp_path)


def test_without_debians_keyring_the_error_names_its_package(
    server: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "absent.gpg")
    with pytest.raises(HostError) as caught:
        lock.resolve(rootfs("bash"), (server.address,), tmp_path)
    assert "debian-archive-keyring" in str(caught.value.hint)


def test_nothing_of_the_hosts_apt_is_read(server: MirrorServer, tmp_path: Path) -> None:
    prepared = apt.prepared(tmp_path, server.address, "trixie", "arm64", sources=False)
    shown = prepared.run("apt-config", "dump").stdout
    for entry in ("Post-Invoke", "Pre-Invoke", "Pre-Install-Pkgs"):
        assert not [line for line in shown.splitlines() if entry in line and '""' not in line]
    assert 'Dir::State::status "/dev/null"' in shown
    assert not [line for line in shown.splitlines() if "APT::Architectures::" in line and "arm64" not in line]


def file(package: str, version: str = "1", sha256: str = "a" * 64, **other: str) -> LockedFile:
    path = other.get("path", f"pool/{package}.deb")
    architecture = other.get("architecture", "all")
    return LockedFile(
        package=package, version=version, architecture=architecture, path=path, size=1, sha256=sha256
    )


def made(*files: LockedFile) -> Lock:
    return Lock(version=1, recipe="r", request="0" * 64, epoch=7, files=list(files))


def test_a_lock_has_one_file_a_line_and_reads_back(tmp_path: Path) -> None:
    one = made(file("aa"), file("bb"))
    lock.write(one, tmp_path / "r.lock.json")
    text = (tmp_path / "r.lock.json").read_text()
    assert [line for line in text.splitlines() if '"package"' in line] == [
        f"  {json.dumps(msgspec.to_builtins(each))}{end}"
        for each, end in zip(one.files, (",", ""), strict=True)
    ]
    assert msgspec.json.decode(text, type=Lock) == one
    assert [path.name for path in tmp_path.iterdir()] == ["r.lock.json"]


def test_a_lock_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.lock.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        lock.write(made(file("a")), path)
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.lock.json"]


def test_a_difference_names_what_came_went_and_changed() -> None:
    old = made(file("gone"), file("kept"), file("newer", "1"), file("other", "1", "a" * 64))
    new = made(file("came"), file("kept"), file("newer", "2"), file("other", "1", "b" * 64))
    assert lock.difference(old, new) == [
        "+ came 1",
        "- gone 1",
        "~ newer 1 -> 2",
        "~ other 1: other bytes",
    ]
    assert lock.difference(new, new) == []
    assert lock.difference(None, made(file("a", "3"))) == ["+ a 3"]


def test_the_files_of_a_source_package_are_told_apart() -> None:
    def source(version: str) -> Lock:
        suffixes = (f"u-boot_{version}.debian.tar.xz", "u-boot_2025.orig.tar.xz")
        return made(*(file("u-boot", version, version * 64, path=s, architecture="source") for s in suffixes))

    assert lock.difference(source("1"), source("2")) == [
        "~ u-boot debian.tar.xz 1 -> 2",
        "~ u-boot orig.tar.xz 1 -> 2",
    ]
