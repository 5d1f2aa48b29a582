"""The entry that U-Boot would boot."""

from __future__ import annotations

import pytest

from boardwright.errors import ProductError
from boardwright.targets.extlinux import Entry, default_entry

TEXT = """# made by a test
DEFAULT second
timeout 10

label first
    linux /Image.old
    append root=/dev/sda1

label second
    menu label The second one
    linux /Image
    initrd /initrd.img
    fdtdir /dtbs
    append  root=PARTUUID=12   rootwait  rw
"""


def test_the_default_label_is_taken_and_blanks_are_folded() -> None:
    assert default_entry(TEXT) == Entry("second", "/Image", "/initrd.img", "root=PARTUUID=12 rootwait rw")


def test_without_a_default_the_first_label_is_taken() -> None:
    assert default_entry(TEXT.replace("DEFAULT", "ontimeout")).label == "first"


def test_kernel_is_another_word_for_linux() -> None:
    assert default_entry("label x\nkernel /K\n") == Entry("x", "/K", None, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one 'label'"),
        ("default x\ntimeout 3\n", "at least one"),
        ("label x\n append y\n", ":1: label 'x' names no kernel"),
    ],
)
def test_what_cannot_be_booted_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ProductError, match=message):
        default_entry(text)
