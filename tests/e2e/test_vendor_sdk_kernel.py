"""The same with a real kernel: the locked 7.3 source as the vendor's tarball, with a patch for a board."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
import sdk_lab
from command import ROOT, invoke

from boardwright.build.fetch import fetch, verified
from boardwright.build.mirror import mirrors
from boardwright.build.sandbox import Seal, argv
from boardwright.errors import ExitStatus
from boardwright.kinds.context import download
from boardwright.vendor import axera_header, sdk, vermagic
from boardwright.verbs.build import builder, environment
from boardwright.verbs.common import request

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # a small kernel is compiled
VERSION = "7.3.4"
WANTED = (
    "SMP", "PREEMPT", "MODULES", "MODULE_UNLOAD", "PRINTK", "TTY", "SERIAL_AMBA_PL011",
    "SERIAL_AMBA_PL011_CONSOLE", "BLK_DEV_INITRD", "BINFMT_ELF", "PROC_FS", "64BIT",
)  # fmt: skip
PREPARE = """
mkdir -p src build module
dpkg-deb --fsys-tarfile /in/source.deb |
    tar -x --to-stdout --wildcards './usr/src/linux-source-*.tar.xz' >linux.tar.xz
tar -xJ --strip-components=1 --no-same-owner -C src -f linux.tar.xz
make -s -C src O=/work/build KCONFIG_ALLCONFIG=/work/wanted allnoconfig
make -s -C src O=/work/build savedefconfig
make -s -j2 -C src O=/work/build modules_prepare
make -s -C src O=/work/build M=/work/module KBUILD_MODPOST_WARN=1 modules
"""
"""A closed module is there before the kernel is: modpost finds no exported symbols, and warns."""
NEW = {
    "arch/arm64/boot/dts/axera/Makefile": "dtb-y += AX650_pipro_box.dtb\n",
    "arch/arm64/boot/dts/axera/AX650_pipro_box.dts": '/dts-v1/;\n/ {\n\tcompatible = "axera,ax650";\n'
    "\t#address-cells = <2>;\n\t#size-cells = <2>;\n};\n",
    "drivers/soc/axera/Kconfig": 'config AX_OSAL\n\tbool "Stand-in for the vendor\'s OSAL"\n',
}
EDITED = {
    "drivers/soc/Kconfig": ('source "drivers/soc/bcm/Kconfig"\n', 'source "drivers/soc/axera/Kconfig"\n'),
    "arch/arm64/boot/dts/Makefile": ("subdir-y += axiado\n", "subdir-y += axera\n"),
}
"""File of the kernel: the line before which one is put."""


def patch(tree: Path, defconfig: str) -> str:
    parts = []
    for name, text in {f"arch/arm64/configs/{sdk.DEFCONFIG}": defconfig, **NEW}.items():
        lines = text.splitlines(keepends=True)
        parts.append(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n")
        parts += ["+" + line for line in lines]
    for name, (before, added) in EDITED.items():
        old = (tree / name).read_text()
        new = old.replace(before, added + before)
        assert new != old
        parts += difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(parts)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """An SDK of a kernel's tarball, a patch with configuration and device tree, and a module built for it."""
    asked = request(ROOT, "maix-iv", "")
    source = download(asked.context.lock("linux-7.3").files[0])
    kept = builder(asked).downloads
    fetch([source], kept, mirrors())
    work = tmp_path / "work"
    (work / "module").mkdir(parents=True)
    for name in ("Kbuild", "ax_cmm.c"):
        (work / "module" / name).write_bytes((ROOT / "native/ax-standin" / name).read_bytes())
    (work / "wanted").write_text("".join(f"CONFIG_{option}=y\n" for option in WANTED))
    seal = Seal(
        root=environment(asked, "tools-cross"),
        writable={"/work": work},
        read_only={"/in/source.deb": verified(source, kept)},
        variables={"ARCH": "arm64", "CROSS_COMPILE": "aarch64-linux-gnu-", "LOCALVERSION": ""},
        directory="/work",
    )
    subprocess.run(argv(seal, ["bash", "-ec", PREPARE]), check=True, capture_output=True, text=True)
    found = tmp_path / "sdk"
    kernel = found / sdk.KERNEL
    kernel.mkdir(parents=True)
    (work / "linux.tar.xz").rename(kernel / f"linux-{VERSION}.tar.xz")
    off, on = "# CONFIG_LOCALVERSION_AUTO is not set\n", "CONFIG_LOCALVERSION_AUTO=y\n"
    defconfig = (work / "build/defconfig").read_text().replace(off, on) + "CONFIG_AX_OSAL=y\n"
    assert on in defconfig
    (kernel / "0001-axera.patch").write_text(patch(work / "src", defconfig))
    sdk_lab.closed(found, (work / "module/ax_cmm.ko").read_bytes())
    return found


def test_a_kernel_of_the_patch_is_for_a_module_that_was_built_before_it(stand_in: Path) -> None:
    (closed,) = sdk.find(stand_in).modules
    assert closed.vermagic == f"{VERSION} SMP preempt mod_unload aarch64"
    done = invoke("build", "--board", "maix-iv", "--vendor-sdk", str(stand_in))
    assert done.returncode == ExitStatus.OK, done.stderr
    out = ROOT / "out/maix-iv/vendor-kernel"
    with (out / "kernel.img").open("rb") as file:
        assert axera_header.check(file)[1] is axera_header.Digest.MATCHES
    image = (out / "kernel.img").read_bytes()[axera_header.SIZE :]
    assert image[56:60] == b"ARM\x64"  # Documentation/arch/arm64/booting.rst
    assert f"Linux version {VERSION} (".encode() in image
    config = vermagic.parse_config((out / "config").read_text())
    assert (config["AX_OSAL"], config.get("LOCALVERSION_AUTO")) == ("y", None)
