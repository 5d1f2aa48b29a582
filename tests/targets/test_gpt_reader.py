"""The partition table as it is in the file, or a clear word; never a partition that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qemu_tools import sealed

from boardwright.errors import ProductError
from boardwright.targets import gpt

TABLE = """label: gpt
unit: sectors
first-lba: 34
1: start=2048, size=4096, type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, uuid=0B0B0B0B-0000-4000-8000-000000000001, name="boot"
3: start=8192, size=2048, type=B921B045-1DF0-41C3-AF44-4C6F280D3FAE, uuid=ABCDEF01-2345-4789-8ABC-000000000003, name="größe"
"""  # noqa: E501


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gpt")
    (directory / "table").write_text(TABLE)
    sealed("truncate -s 8M disk.img; sfdisk -q disk.img < table", directory)
    return directory / "disk.img"


def test_what_sfdisk_wrote_is_what_is_read(image: Path) -> None:
    assert gpt.read(image) == [
        gpt.Partition(1, "boot", "0b0b0b0b-0000-4000-8000-000000000001", 2**20, 2 * 2**20),
        gpt.Partition(3, "größe", "abcdef01-2345-4789-8abc-000000000003", 4 * 2**20, 2**20),
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.one_of(st.integers(512, 603), st.integers(1024, 1024 + 3 * 128)), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(image: Path, tmp_path: Path, where: int, bit: int) -> None:
    data = bytearray(image.read_bytes()[: 34 * 512])
    data[where] ^= 1 << bit
    broken = tmp_path / "broken.img"
    broken.write_bytes(data)
    with pytest.raises(ProductError, match="expected a disk image with a GPT"):
        gpt.read(broken)


@pytest.mark.parametrize("size", [0, 511, 600, 1024])
def test_a_file_too_short_for_a_table_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "short.img"
    path.write_bytes(bytes(size))
    with pytest.raises(ProductError, match="no GPT signature"):
        gpt.read(path)
