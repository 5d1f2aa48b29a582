"""The emulation of A64 loads and stores against the processor: the same instruction, the same RAM."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from boardwright.build.sandbox import Seal, argv

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "native/align-hunt"
pytestmark = pytest.mark.skipif(not shutil.which("qemu-aarch64-static"), reason="needs qemu-user-static")


def compiled(cross: Path, out: Path, sources: dict[str, Path]) -> Path:
    """A static arm64 program of the test and these two of the library's files."""
    seal = Seal(root=cross, read_only={"/in/test": HERE, **sources}, writable={"/out": out}, directory="/out")
    flags = "-std=gnu11 -O2 -static -Wall -Wextra -Wconversion -Werror -I/in/library"
    files = "/in/test/emulate_test.c /in/test/forms.S /in/library/decode.c /in/library/emulate.c"
    command = f"aarch64-linux-gnu-gcc {flags} -o emulate_test {files}"
    subprocess.run(argv(seal, ["bash", "-euc", command]), check=True)
    return out / "emulate_test"


def run(program: Path) -> subprocess.CompletedProcess[str]:
    command = ["qemu-aarch64-static", "-cpu", "max", str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_every_form_at_every_misalignment_is_what_the_processor_makes_of_it(
    cross: Path, tmp_path: Path
) -> None:
    done = run(compiled(cross, tmp_path, {"/in/library": NATIVE}))
    assert done.returncode == 0, done.stdout
    forms, comparisons, refused, failures = (int(word) for word in done.stdout.split() if word.isdigit())
    assert (forms, refused, failures) == (138, 20, 0)
    assert comparisons == 17 * forms


@pytest.mark.parametrize(
    ("file", "right", "wrong", "what"),
    [
        ("decode.c", "signed_bits(word, 15, 7) * a->element", "signed_bits(word, 15, 7) * 8", "ldp w"),
        ("decode.c", "(opc & 2) << 1 | size", "size", "ldr q"),
        ("emulate.c", "a->narrow ? (uint32_t)value : value", "value", "ldrsb w"),
        ("emulate.c", "m->v[(a->rt + r) % 32] = 0;", ";", "V registers differ"),
        ("emulate.c", "*m->pstate &= ~PSTATE_BTYPE;", "", "BTYPE"),
    ],
)
def test_a_fault_in_the_emulation_is_seen(
    cross: Path, tmp_path: Path, file: str, right: str, wrong: str, what: str
) -> None:
    library = tmp_path / "library"
    shutil.copytree(NATIVE, library)
    text = (library / file).read_text()
    assert text.count(right) == 1
    (library / file).write_text(text.replace(right, wrong))
    done = run(compiled(cross, tmp_path, {"/in/library": library}))
    assert done.returncode == 1
    assert what in done.stdout
