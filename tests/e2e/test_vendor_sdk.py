"""invoke build --vendor-sdk, with a tree that has a kernel's targets in place of the vendor's kernel."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sdk_lab
from command import ROOT, invoke

from boardwright.errors import ExitStatus
from boardwright.vendor import axera_header

pytestmark = pytest.mark.e2e
OUT = ROOT / "out/maix-iv/vendor-kernel"


def payload(name: str) -> bytes:
    """What U-Boot would load of an image: its header is right."""
    data = (OUT / name).read_bytes()
    header, digest = axera_header.check(io.BytesIO(data), name)
    assert digest is axera_header.Digest.MATCHES
    return data[axera_header.SIZE : header.image_size]


def built(sdk: Path) -> str:
    done = invoke("build", "--board", "maix-iv", "--vendor-sdk", str(sdk))
    assert done.returncode == ExitStatus.OK, done.stderr
    return done.stderr


def refused(sdk: Path) -> tuple[int, str]:
    done = invoke("build", "--board", "maix-iv", "--vendor-sdk", str(sdk))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_tree_in_git_gives_a_kernel_of_the_modules_release(tmp_path: Path) -> None:
    assert "Linux 5.15.73 for 1 closed modules" in built(sdk_lab.tree(tmp_path))
    assert payload("kernel.img").endswith(b"Linux version 5.15.73 (boardwright) nothing")
    assert payload("dtb.img")[:4] == b"\xd0\x0d\xfe\xed"
    assert "# CONFIG_LOCALVERSION_AUTO is not set\n" in (OUT / "config").read_text()


def test_a_tarball_gets_the_patch_beside_it(tmp_path: Path) -> None:
    built(sdk_lab.tarball(tmp_path))
    assert payload("kernel.img").endswith(b"Linux version 5.15.73 (boardwright) AX650")


def test_a_patch_for_another_source_is_no_patch(tmp_path: Path) -> None:
    status, said = refused(sdk_lab.tarball(tmp_path, context="something"))
    assert status == ExitStatus.PRODUCT
    assert "brings" in said


@pytest.mark.parametrize(("change", "said"), [
    ({"magic": sdk_lab.MAGIC.replace("73", "73-g12")}, "for release '5.15.73-g12', the kernel is '5.15.73'"),
    ({"config": sdk_lab.CONFIG.replace("PREEMPT=y", "PREEMPT=n")}, "have 'preempt', the kernel not"),
    ({"config": sdk_lab.CONFIG + "CONFIG_MODVERSIONS=y\n"}, "no symbol versions to compare"),
])  # fmt: skip
def test_a_kernel_that_the_modules_do_not_fit_is_refused(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    status, text = refused(sdk_lab.tree(tmp_path, **change))
    assert (status, said in text) == (ExitStatus.INPUT, True), text


def test_what_is_no_sdk_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    assert refused(tmp_path / "none")[0] == ExitStatus.INPUT
    status, said = refused(tmp_path)
    assert status == ExitStatus.INPUT
    assert "expected the SDK's directory kernel/linux, found none" in said
