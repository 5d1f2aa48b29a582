"""What docs/npu.md shows and names is what there is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "native/npu-matmul"
PAGE = (ROOT / "docs/npu.md").read_text()


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_example_compiles_without_a_warning(tmp_path: Path) -> None:
    (source,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "example.c").write_text(source)
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-I",
        str(LIBRARY / "include"),
    ]
    done = subprocess.run([*command, "example.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_environment_variable_of_the_page_is_read_by_the_code() -> None:
    code = "".join(path.read_text() for path in LIBRARY.rglob("*.c"))
    named = set(re.findall(r"\bNPU_MATMUL_[A-Z_]+", PAGE))
    assert named
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_every_switch_has_its_row() -> None:
    header = (LIBRARY / "include/npu-matmul.h").read_text()
    (body,) = re.findall(r"struct nm_switches \{(.*?)\n\};", header, re.DOTALL)
    switches = re.findall(r"(?:\} |unsigned |bool )(\w+);", body)
    assert len(switches) == 6
    assert [name for name in switches if f"| `{name}`" not in PAGE] == []


def test_the_options_of_probe_that_the_page_shows_exist() -> None:
    usage = (LIBRARY / "tool/probe.c").read_text()
    for option in set(re.findall(r"npu-matmul probe (--[a-z]+)", PAGE)):
        assert f"{option[2:]}" in usage
