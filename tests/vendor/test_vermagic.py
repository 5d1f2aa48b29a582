"""Closed modules against a kernel: synthetic .ko files, each rule of vermagic, and files that are none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from boardwright.errors import InputError
from boardwright.vendor import vermagic

RELEASE = "5.15.73"
MAGIC = "5.15.73 SMP preempt mod_unload aarch64"
CONFIG = {"SMP": "y", "PREEMPT": "y", "MODULE_UNLOAD": "y", "MODULES": "y", "AX_OSAL": "y"}


def module(
    magic: str | None = MAGIC, *, machine: int = 183, versions: bool = False, modinfo: bool = True
) -> bytes:
    """A relocatable ELF file with the sections that a module is judged by."""
    info = b"license=Proprietary\0" + (f"vermagic={magic}\0".encode() if magic is not None else b"")
    sections = {"": b"", ".shstrtab": b""}
    if modinfo:
        sections[".modinfo"] = info
    if versions:
        sections["__versions"] = bytes(64)
    names = b"".join(name.encode() + b"\0" for name in sections)
    sections[".shstrtab"] = names
    body, rows, at, name_at = b"", [], 64, 0
    for name, data in sections.items():
        rows.append(struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, at, len(data), 0, 0, 1, 0))
        body, at, name_at = body + data, at + len(data), name_at + len(name) + 1
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 1, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, len(rows), 1
    )
    return head + body + b"".join(rows)


def modules(*magics: str) -> list[vermagic.Module]:
    return [vermagic.read(module(magic), f"ax_{index}.ko") for index, magic in enumerate(magics)]


def test_a_module_says_what_it_is_for() -> None:
    found = vermagic.read(module(), "ax_npu.ko")
    assert (found.release, found.flags) == (RELEASE, {"SMP", "preempt", "mod_unload", "aarch64"})
    assert not found.versions
    assert vermagic.read(module(versions=True), "x.ko").versions


def test_a_kernel_of_the_vendors_configuration_takes_the_modules() -> None:
    assert vermagic.of_kernel(RELEASE, CONFIG) == MAGIC
    vermagic.check(modules(MAGIC, MAGIC), RELEASE, CONFIG, vendor=CONFIG)


@pytest.mark.parametrize(("release", "change", "said"), [
    ("5.15.73-g1a2b3c4", {}, "release '5.15.73', the kernel is '5.15.73-g1a2b3c4'"),
    ("5.15.73-g1a2b3c4", {}, "LOCALVERSION_AUTO"),
    ("5.15.74", {}, "release '5.15.73', the kernel is '5.15.74'"),
    (RELEASE, {"PREEMPT": "n"}, "the modules have 'preempt', the kernel not"),
    (RELEASE, {"SMP": "n"}, "the modules have 'SMP', the kernel not"),
    (RELEASE, {"MODULE_UNLOAD": "n"}, "'mod_unload'"),
    (RELEASE, {"MODVERSIONS": "y"}, "the kernel has 'modversions', the modules not"),
    (RELEASE, {"MODVERSIONS": "y"}, "no symbol versions"),
    (RELEASE, {"PREEMPT": "n", "PREEMPT_RT": "y"}, "'preempt_rt'"),
    (RELEASE, {"MODULE_SIG_FORCE": "y"}, "CONFIG_MODULE_SIG_FORCE=y"),
    (RELEASE, {"AX_OSAL": "n"}, "CONFIG_AX_OSAL: expected y, found n"),
    (RELEASE, {"KASAN": "y"}, "CONFIG_KASAN: the modules were built with n, the kernel has y"),
])  # fmt: skip
def test_a_kernel_that_does_not_take_them_is_refused_with_what_differs(
    release: str, change: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        vermagic.check(modules(MAGIC), release, {**CONFIG, **change}, vendor=CONFIG)
    assert said in caught.value.message


def test_modules_of_two_kernels_are_refused_with_both() -> None:
    with pytest.raises(InputError, match="found 2") as caught:
        vermagic.wanted(modules(MAGIC, MAGIC.replace("73", "74")))
    assert "5.15.74" in caught.value.message


@pytest.mark.parametrize(("data", "said"), [
    (b"", "ELF"), (b"\x7fELF" + bytes(80), "64-bit little-endian"),
    (module(machine=62), "machine 183 (AArch64), found 62"), (module(modinfo=False), "no kernel module"),
    (module(magic=None), "one vermagic in .modinfo, found 0"), (module()[:-10], "section headers"),
])  # fmt: skip
def test_what_is_no_module_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        vermagic.read(data, "broken.ko")
    assert said in caught.value.message


def test_every_cut_of_a_module_is_refused_or_read() -> None:
    whole = module(versions=True)
    for length in range(len(whole)):
        with pytest.raises(InputError):
            vermagic.read(whole[:length], "cut.ko")


def test_a_directory_without_modules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found none"):
        vermagic.read_all(tmp_path)
    (tmp_path / "ko").mkdir()
    (tmp_path / "ko/ax_cmm.ko").write_bytes(module())
    assert [Path(found.name).name for found in vermagic.read_all(tmp_path)] == ["ax_cmm.ko"]


def test_a_configuration_is_read_as_kconfig_writes_it() -> None:
    text = '# CONFIG_KASAN is not set\nCONFIG_SMP=y\nCONFIG_LOCALVERSION=""\nCONFIG_HZ=100\n'
    assert vermagic.parse_config(text) == {"SMP": "y", "LOCALVERSION": "", "HZ": "100"}
