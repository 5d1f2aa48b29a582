"""The .deb of a meson recipe: what goes into it, what it must declare, and that dpkg takes it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from boardwright.sealed import mesondeb
from boardwright.sealed.mesondeb import PackageError, check_depends, installed

LIBRARIES = "usr/lib/aarch64-linux-gnu"
CONTROL = "Package: ours\nVersion: 1\nArchitecture: arm64\nMaintainer: m <m@localhost>\nDescription: d\n"


def tree(root: Path) -> Path:
    for name in (f"{LIBRARIES}/libgbm.so.1.0.0", f"{LIBRARIES}/lib_drm_shim.so", "usr/include/gbm.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / LIBRARIES / "libgbm.so.1").symlink_to("libgbm.so.1.0.0")
    (root / LIBRARIES / "libgbm.so").symlink_to("libgbm.so.1")
    (root / LIBRARIES / "pkgconfig").mkdir()
    (root / LIBRARIES / "pkgconfig/gbm.pc").write_text("")
    return root


def test_what_programs_need_goes_into_the_package_and_what_compilers_need_does_not(tmp_path: Path) -> None:
    assert installed(tree(tmp_path), ["usr/lib/*/lib*_drm_shim.so"]) == [
        f"{LIBRARIES}/libgbm.so.1",
        f"{LIBRARIES}/libgbm.so.1.0.0",
    ]


def test_a_plugin_that_is_a_link_to_a_plugin_is_kept(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/dri").mkdir(parents=True)
    (tmp_path / "usr/lib/dri/libdril_dri.so").write_text("")
    (tmp_path / "usr/lib/dri/r600_dri.so").symlink_to("libdril_dri.so")
    assert "usr/lib/dri/r600_dri.so" in installed(tmp_path, [])


KNOWN = {"libc.so.6": "libc6", "libdrm.so.2": "libdrm2", "libz.so.1": "zlib1g"}


def test_declared_packages_are_those_of_the_needed_libraries() -> None:
    check_depends({"libc.so.6", "libdrm.so.2", "libgbm.so.1"}, {"libgbm.so.1"}, KNOWN, {"libc6", "libdrm2"})


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"libc6"}, "the package needs libdrm2"),
        ({"libc6", "libdrm2", "zlib1g"}, "the package does not need zlib1g"),
        ({"zlib1g", "libc6"}, "the package needs libdrm2 and does not need zlib1g"),
    ],
)
def test_a_package_too_many_or_too_few_is_named(declared: set[str], expected: str) -> None:
    with pytest.raises(PackageError, match=expected):
        check_depends({"libc.so.6", "libdrm.so.2"}, set(), KNOWN, declared)


def test_a_library_of_no_package_is_named() -> None:
    with pytest.raises(PackageError, match=r"no package of `libraries` has libLLVM\.so\.19"):
        check_depends({"libLLVM.so.19"}, set(), KNOWN, set())


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_the_same_files_with_other_times_modes_and_umask_make_the_same_package(tmp_path: Path) -> None:
    made = []
    for name, umask, when in (("one", 0o022, 1_000_000_000), ("two", 0o077, 1_100_000_000)):
        root = tmp_path / name
        before = os.umask(umask)
        try:
            (root / LIBRARIES).mkdir(parents=True)
            (root / LIBRARIES / "libx.so.1").write_text("x")
        finally:
            os.umask(before)
        for path in (root / LIBRARIES / "libx.so.1", root / LIBRARIES):
            os.utime(path, (when, when))
        mesondeb.describe(root, CONTROL)
        deb = tmp_path / f"{name}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "--build", root, deb],
            env={**os.environ, "SOURCE_DATE_EPOCH": "900000000"},
            check=True,
            capture_output=True,
        )
        made.append(deb.read_bytes())
    assert made[0] == made[1]


def test_nothing_installed_makes_no_package(tmp_path: Path) -> None:
    (tmp_path / "control").write_text(CONTROL)
    (tmp_path / "tree").mkdir()
    with pytest.raises(PackageError, match="nothing was installed"):
        mesondeb.build(
            argparse.Namespace(
                control=tmp_path / "control", tree=tmp_path / "tree", beside="", sysroot=tmp_path
            )
        )
