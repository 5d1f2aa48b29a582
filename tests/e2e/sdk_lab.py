"""Stand-ins for a vendor's SDK: a tree with the targets of a kernel's, and a kernel with another's name."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from command import ROOT

from boardwright.vendor import sdk

sys.path.insert(0, str(ROOT / "tests/vendor"))
from test_vermagic import module

MAGIC = "5.15.73 SMP preempt mod_unload aarch64"
MAKEFILE = r"""
# The targets that a kernel's tree has, with its rule for the release (scripts/setlocalversion).
ifeq ($(origin LOCALVERSION),undefined)
plus := +
endif
auto = $(if $(shell grep -s ^CONFIG_LOCALVERSION_AUTO=y $(O)/.config),$(if $(wildcard .git),-dirty))
release = 5.15.73$(LOCALVERSION)$(plus)$(auto)
boot := $(O)/arch/arm64/boot
%_defconfig:
	cp arch/arm64/configs/$@ $(O)/.config
olddefconfig:
	echo CONFIG_MODULES=y >>$(O)/.config
Image:
	test "$(ARCH)" = arm64 && mkdir -p $(boot)
	echo 'void start(void) {}' >$(O)/start.c
	$(CROSS_COMPILE)gcc -nostdlib -Wl,--entry=start -o $(O)/vmlinux $(O)/start.c
	$(CROSS_COMPILE)objcopy -O binary $(O)/vmlinux $(boot)/Image
	printf 'Linux version $(release) (boardwright) %s' "$$(cat brings)" >>$(boot)/Image
%.dtb:
	mkdir -p $(dir $(boot)/dts/$@)
	dtc -I dts -O dtb -o $(boot)/dts/$@ arch/arm64/boot/dts/$*.dts
kernelrelease:
	@echo $(release)
"""
CONFIG = (
    "CONFIG_SMP=y\nCONFIG_PREEMPT=y\nCONFIG_MODULE_UNLOAD=y\nCONFIG_AX_OSAL=y\nCONFIG_LOCALVERSION_AUTO=y\n"
)
TREE = {
    "Makefile": MAKEFILE,
    "brings": "nothing\n",
    f"arch/arm64/configs/{sdk.DEFCONFIG}": CONFIG,
    f"arch/arm64/boot/dts/{sdk.DEVICE_TREE.removesuffix('.dtb')}.dts": "/dts-v1/; / { };\n",
    ".git/HEAD": "ref: refs/heads/main\n",
}


def tree(directory: Path, *, config: str = CONFIG, magic: str = MAGIC) -> Path:
    """An SDK whose kernel is a tree in git, with one closed module."""
    for name, text in (TREE | {f"arch/arm64/configs/{sdk.DEFCONFIG}": config}).items():
        path = directory / sdk.KERNEL / "linux-5.15.73" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    closed(directory, module(magic))
    return directory


def closed(directory: Path, data: bytes) -> None:
    (directory / "soc/ko").mkdir(parents=True)
    (directory / "soc/ko/ax_cmm.ko").write_bytes(data)


def tarball(directory: Path, *, context: str = "nothing") -> Path:
    """The same as a tarball of what upstream has, and a patch that brings the board."""
    kernel = directory / sdk.KERNEL
    kernel.mkdir(parents=True)
    board = [name for name in TREE if name.startswith("arch")]
    with tarfile.open(kernel / "linux-5.15.73.tar.gz", "w:gz") as tar:
        for name in ("Makefile", "brings"):
            info = tarfile.TarInfo(f"linux-5.15.73/{name}")
            info.size = len(TREE[name])
            tar.addfile(info, io.BytesIO(TREE[name].encode()))
    patch = [f"--- a/brings\n+++ b/brings\n@@ -1 +1 @@\n-{context}\n+AX650\n"]
    for name in board:
        lines = TREE[name].splitlines(keepends=True)
        patch.append(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n")
        patch += ["+" + line for line in lines]
    (kernel / "0001-axera.patch").write_text("".join(patch))
    closed(directory, module(MAGIC))
    return directory
