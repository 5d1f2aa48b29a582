"""Where the vendor's SDK has its kernel and closed modules, and what is said when it has not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_vermagic import MAGIC, module

from boardwright.errors import InputError
from boardwright.vendor import sdk


def laid_out(directory: Path, *files: str, ko: bytes | None = None) -> Path:
    """An SDK of empty files, and one closed module."""
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    if ko is not None:
        (directory / "msp/out/ko").mkdir(parents=True)
        (directory / "msp/out/ko/ax_cmm.ko").write_bytes(ko)
    return directory


TREE = (
    "kernel/linux/linux-5.15.73/Makefile",
    f"kernel/linux/linux-5.15.73/arch/arm64/configs/{sdk.DEFCONFIG}",
)
TARBALL = ("kernel/linux/linux-5.15.73.tar.gz", "kernel/linux/0001-axera.patch")


def test_a_tree_is_found_with_its_modules(tmp_path: Path) -> None:
    found = sdk.find(laid_out(tmp_path, *TREE, ko=module(MAGIC)))
    assert found.is_tree
    assert [m.vermagic for m in found.modules] == [MAGIC]


def test_a_tarball_is_found_with_its_patch(tmp_path: Path) -> None:
    found = sdk.find(laid_out(tmp_path, *TARBALL, ko=module(MAGIC)))
    assert (found.source.name, [p.name for p in found.patches]) == (
        "linux-5.15.73.tar.gz",
        ["0001-axera.patch"],
    )


def test_modules_that_a_build_left_in_the_tree_are_not_the_closed_ones(tmp_path: Path) -> None:
    built = tmp_path / "kernel/linux/linux-5.15.73/drivers/x.ko"
    laid_out(tmp_path, *TREE, ko=module(MAGIC))
    built.parent.mkdir(parents=True)
    built.write_bytes(module(MAGIC.replace("73", "73-dirty")))
    assert len(sdk.find(tmp_path).modules) == 1


@pytest.mark.parametrize(("files", "ko", "said"), [
    ((), module(MAGIC), "expected the SDK's directory kernel/linux"),
    (("kernel/linux/README",), module(MAGIC), "found 0 and 0"),
    ((TREE[0],), module(MAGIC), "expected the board's configuration"),
    ((TARBALL[0],), module(MAGIC), "expected the vendor's patch beside linux-5.15.73.tar.gz"),
    ((*TARBALL, "kernel/linux/linux-5.15.74.tar.gz"), module(MAGIC), "found 0 and 2"),
    (TREE, None, "expected kernel modules"),
    (TARBALL, b"no ELF", "expected a 64-bit little-endian ELF file"),
    (TREE, module(MAGIC.replace("73", "7")), "kernel of the closed modules, 5.15.7, found 5.15.73"),
    (TARBALL, module(MAGIC.replace("5.15.73", "6.1.1")), "modules, 6.1.1, found 5.15.73"),
])  # fmt: skip
def test_what_is_missing_is_named(
    tmp_path: Path, files: tuple[str, ...], ko: bytes | None, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        sdk.find(laid_out(tmp_path, *files, ko=ko))
    assert said in caught.value.message


def test_only_files_are_modules(tmp_path: Path) -> None:
    """Links to nothing, directories and pipes in a tree of somebody's: a pipe was waited for, for ever."""
    laid_out(tmp_path, *TREE, ko=module(MAGIC))
    (tmp_path / "msp/gone.ko").symlink_to("nowhere")
    (tmp_path / "msp/endless.ko").symlink_to("/dev/zero")
    (tmp_path / "msp/directory.ko").mkdir()
    os.mkfifo(tmp_path / "msp/pipe.ko")
    assert len(sdk.find(tmp_path).modules) == 1


def test_a_tree_that_is_a_link_is_followed(tmp_path: Path) -> None:
    laid_out(tmp_path, *TREE, ko=module(MAGIC))
    link = tmp_path / "kernel/linux/linux-5.15.73"
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    assert sdk.find(tmp_path).source == tmp_path / "elsewhere"
