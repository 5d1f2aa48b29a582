"""The initramfs of a distribution's kernel: which modules, in which order, and the archive's bytes."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardwright.sealed import initramfs
from boardwright.sealed.initramfs import Fault, Modules, load_order, module_name, read_modules

CODE = Path(__file__).parents[2] / "boardwright"
INIT = CODE / "sealed/init.sh"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """What depmod leaves, as small as it gets: virtio-blk, ext4 with its soft dependency, nvme."""
    files = {
        "modules.dep": "kernel/fs/ext4/ext4.ko.xz: kernel/fs/mbcache.ko.xz kernel/fs/jbd2/jbd2.ko.xz\n"
        "kernel/fs/mbcache.ko.xz:\nkernel/fs/jbd2/jbd2.ko.xz:\n"
        "kernel/crypto/crc32c_generic.ko.xz:\n"
        "kernel/drivers/block/virtio_blk.ko.gz:\n"
        "kernel/drivers/mmc/host/sdhci-pci.ko: kernel/drivers/mmc/host/sdhci.ko\n"
        "kernel/drivers/mmc/host/sdhci.ko:\n",
        "modules.alias": "alias crypto-crc32c crc32c_generic\nalias pci:v00001AF4d*sv* virtio_pci\n",
        "modules.softdep": "# Soft dependencies\nsoftdep ext4 pre: crypto-crc32c nobody post: also_nobody\n"
        "softdep jbd2 pre: crypto-crc32c\nsoftdep absent pre: x\n",
        "modules.builtin": "kernel/drivers/virtio/virtio_pci.ko\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for line in files["modules.dep"].splitlines():
        path = tmp_path / line.partition(":")[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(path))
    return tmp_path


def packed(path: Path) -> bytes:
    plain = b"\x7fELF " + module_name(path.name).encode()
    if path.suffix == ".xz":
        return lzma.compress(plain)
    return gzip.compress(plain) if path.suffix == ".gz" else plain


def names(order: list[str]) -> list[str]:
    return [module_name(path) for path in order]


# Which modules


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kernel/drivers/block/virtio_blk.ko", "virtio_blk"),
        ("kernel/drivers/mmc/host/sdhci-pci.ko.xz", "sdhci_pci"),
        ("a.ko.zst", "a"),
        ("kernel/x/snd-ko.ko", "snd_ko"),
    ],
)
def test_a_module_is_named_as_the_kernel_names_it(path: str, name: str) -> None:
    assert module_name(path) == name


def test_what_a_module_needs_comes_before_it(kernel: Path) -> None:
    assert names(load_order(read_modules(kernel), ["sdhci-pci"])) == ["sdhci", "sdhci_pci"]


def test_soft_dependencies_come_along_through_their_aliases(kernel: Path) -> None:
    order = names(load_order(read_modules(kernel), ["ext4"]))
    assert order[-1] == "ext4"
    assert order.index("crc32c_generic") < order.index("jbd2")
    assert sorted(order) == ["crc32c_generic", "ext4", "jbd2", "mbcache"]


def test_built_in_modules_are_left_out_and_no_module_comes_twice(kernel: Path) -> None:
    wanted = ["virtio_pci", "virtio-blk", "virtio_blk", "sdhci", "sdhci-pci"]
    assert names(load_order(read_modules(kernel), wanted)) == ["virtio_blk", "sdhci", "sdhci_pci"]


def test_every_module_that_does_not_exist_is_named(kernel: Path) -> None:
    with pytest.raises(Fault, match="neither module nor built-in no_such, nor_this"):
        load_order(read_modules(kernel), ["ext4", "no-such", "nor_this"])


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4)))
def test_needs_come_first_in_any_graph_without_circles(graph: dict[str, list[str]]) -> None:
    needs = {name: tuple(n for n in graph.get(name, []) if n > name) for name in "abcdef"}
    modules = Modules(Path(), {name: name for name in "abcdef"}, needs, frozenset())
    order = load_order(modules, sorted(graph))
    assert len(order) == len(set(order))
    for name in order:
        assert all(order.index(need) < order.index(name) for need in needs[name])


def test_a_circle_of_soft_dependencies_ends() -> None:
    modules = Modules(Path(), {"a": "a", "b": "b"}, {"a": ("b",), "b": ("a",)}, frozenset())
    assert sorted(load_order(modules, ["a"])) == ["a", "b"]


# The archive


@dataclass
class Entry:
    mode: int
    owner: tuple[int, int]
    mtime: int
    data: bytes


def entries(archive: bytes) -> dict[str, Entry]:
    """Read a newc archive by the kernel's description of it."""
    found: dict[str, Entry] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        start = at + 110
        name = archive[start : start + fields[11] - 1].decode()
        data = start + fields[11] + (-(start + fields[11])) % 4
        if name == "TRAILER!!!":
            return found
        found[name] = Entry(fields[1], (fields[2], fields[3]), fields[5], archive[data : data + fields[6]])
        at = data + fields[6] + (-(data + fields[6])) % 4


def make(kernel: Path, out: Path, *modules: str) -> int:
    busybox = out.parent / "busybox"
    busybox.write_bytes(b"busybox")
    arguments = ["--modules", kernel, "--busybox", busybox, "--init", INIT, "--out", out, *modules]
    return initramfs.main([str(argument) for argument in arguments])


def test_the_archive_holds_busybox_init_and_modules_plainly_in_load_order(
    kernel: Path, tmp_path: Path
) -> None:
    assert make(kernel, tmp_path / "initrd.img", "ext4", "virtio_blk", "sdhci-pci") == 0
    found = entries(gzip.decompress((tmp_path / "initrd.img").read_bytes()))
    assert found["init"].mode == found["bin/busybox"].mode == 0o100755
    assert found["init"].data == INIT.read_bytes()
    assert found["dev"].mode == 0o040755
    order = found["modules.order"].data.decode().split()
    assert " ".join(name[4:-3] for name in order) == (
        "crc32c_generic jbd2 mbcache ext4 virtio_blk sdhci sdhci_pci"
    )
    for name in order:
        assert found[f"modules/{name}"].data == f"\x7fELF {name[4:-3]}".encode()


def test_nothing_in_the_archive_has_a_time_or_an_owner(kernel: Path, tmp_path: Path) -> None:
    make(kernel, tmp_path / "initrd.img", "ext4")
    found = entries(gzip.decompress((tmp_path / "initrd.img").read_bytes()))
    assert {(entry.owner, entry.mtime) for entry in found.values()} == {((0, 0), 0)}


def test_the_same_modules_make_the_same_bytes(kernel: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make(kernel, tmp_path / name / "initrd.img", "ext4", "sdhci-pci")
        (kernel / "modules.dep").touch()
    assert (tmp_path / "a/initrd.img").read_bytes() == (tmp_path / "b/initrd.img").read_bytes()


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_reads_the_archive(kernel: Path, tmp_path: Path) -> None:
    make(kernel, tmp_path / "initrd.img", "ext4")
    plain = gzip.decompress((tmp_path / "initrd.img").read_bytes())
    done = subprocess.run(["cpio", "--list", "--quiet"], input=plain, capture_output=True, check=True)
    assert done.stdout.decode().split() == list(entries(plain))
    assert done.stderr == b""


def test_a_missing_module_ends_the_step_in_words(
    kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(kernel, tmp_path / "initrd.img", "nvme") == 1
    assert capsys.readouterr().err == "error: the kernel has neither module nor built-in nvme\n"
    assert not (tmp_path / "initrd.img").exists()


# The script


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_init_is_what_busybox_sh_understands() -> None:
    subprocess.run(["busybox", "sh", "-n", INIT], check=True)
