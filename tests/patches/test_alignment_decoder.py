"""The decoder of the alignment fixup reads A64 words the way binutils does.

It is taken out of its patch and compiled for this machine. ``decoder/words.txt`` holds words with their
disassembly; the expectation is read from that text, by rules of this file, never from the decoder.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCH = ROOT / "patches/kernel/alignment-fixup/0001-decode-loads-and-stores.patch"
DATA = Path(__file__).with_name("decoder")

EXTEND = {"lsl": 3, "uxtw": 2, "sxtw": 6, "sxtx": 7}
BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16}
SP = 31
UNKNOWN = "-"

ADDRESS = re.compile(r"\[([^\]]*)\](!?)(?:, (#-?\d+|x\d+|xzr))?")
SINGLE = re.compile(r"(ld|st)(?:u|t)?r(sb|sh|sw|b|h)?")
PAIR = re.compile(r"(ld|st)n?p(sw)?")
VECTORS = re.compile(r"(ld|st)([1-4])(r?)")
LIST = re.compile(r"\{([^}]*)\}(?:\[(\d+)\])?, (\[.*)")


def number(register: str) -> int:
    return SP if register in ("sp", "wsp", "xzr", "wzr") else int(register[1:])


def read_address(text: str) -> tuple[str, int, bool]:
    """The driver's words for an address, its base, and whether the base is written back."""
    found = ADDRESS.fullmatch(text)
    assert found, text
    inside, bang, post = found[1].split(", "), found[2], found[3]
    base = number(inside[0])
    offset = "imm 0"
    if post:
        offset = f"imm {post[1:]}" if post[0] == "#" else f"reg {number(post)} ext 3 shift 0"
    elif len(inside) > 1 and inside[1][0] == "#":
        offset = f"imm {inside[1][1:]}"
    elif len(inside) > 1:
        kind, _, shift = (inside[2] if len(inside) > 2 else "lsl").partition(" #")
        offset = f"reg {number(inside[1])} ext {EXTEND[kind]} shift {shift or 0}"
    return f"{offset} base {base}" + (" post wb" if post else " wb" if bang else ""), base, bool(post or bang)


def expect_registers(verb: str, suffix: str, operands: str, is_pair: bool) -> str:
    registers = operands[: operands.index("[")].rstrip(", ").split(", ")
    where, base, writeback = read_address(operands[operands.index("[") :])
    numbers, kind = [number(register) for register in registers], registers[0][0]
    if kind not in "wxbhsdq":  # SVE
        return UNKNOWN
    if is_pair and verb == "load" and numbers[0] == numbers[1]:  # CONSTRAINED UNPREDICTABLE
        return UNKNOWN
    if kind in BYTES:
        return f"{verb} v {BYTES[kind]} " + " ".join(f"{n}.0" for n in numbers) + f" {where}"
    if writeback and base != SP and base in numbers:  # CONSTRAINED UNPREDICTABLE
        return UNKNOWN
    wide = kind == "x"
    size = {"b": 1, "h": 2, "w": 4}.get(suffix[-1:], 8 if wide else 4)
    sign = f" sign {64 if wide else 32}" if suffix.startswith("s") else ""
    return f"{verb} r {size}{sign} " + " ".join(map(str, numbers)) + f" {where}"


def read_list(text: str) -> tuple[list[int], str]:
    """The registers of ``v31.4s, v0.4s`` or ``v30.4s-v1.4s``, and their arrangement."""
    ends = [part.split(".") for part in re.split(r", |-", text)]
    numbers = [number(end[0]) for end in ends]
    if "-" in text:
        first, last = numbers
        numbers = [(first + i) % 32 for i in range((last - first) % 32 + 1)]
    return numbers, ends[0][1]


def expect_vectors(verb: str, structure: int, replicate: bool, operands: str) -> str:
    found = LIST.fullmatch(operands)
    assert found, operands
    registers, arrangement = read_list(found[1])
    where, _, _ = read_address(found[3])
    lanes = int(arrangement[:-1] or 1)
    if found[2]:
        places = ["merge", *(f"{register}.{found[2]}" for register in registers)]
    elif replicate:
        places = [f"{register}.0" + (f"x{lanes}" if lanes > 1 else "") for register in registers]
    elif structure == 1:
        places = [f"{register}.{lane}" for register in registers for lane in range(lanes)]
    else:
        places = [f"{register}.{lane}" for lane in range(lanes) for register in registers]
    return f"{verb} v {BYTES[arrangement[-1]]} " + " ".join(places) + f" {where}"


def expected(text: str) -> str:
    """What the driver has to print for a line of disassembly."""
    mnemonic, _, operands = text.split(";")[0].strip().partition("\t")
    if mnemonic == "dc" and operands.startswith("zva"):
        return f"zva {number(operands.split(', ')[1])}"
    if "[" not in operands:
        return UNKNOWN
    verb = "load" if mnemonic.startswith("ld") else "store"
    if found := VECTORS.fullmatch(mnemonic):
        return expect_vectors(verb, int(found[2]), bool(found[3]), operands)
    if found := SINGLE.fullmatch(mnemonic):
        return expect_registers(verb, found[2] or "", operands, is_pair=False)
    if found := PAIR.fullmatch(mnemonic):
        return expect_registers(verb, found[2] or "", operands, is_pair=True)
    return UNKNOWN


@pytest.fixture(scope="module")
def words() -> list[tuple[str, str]]:
    lines = (DATA / "words.txt").read_text().splitlines()
    pairs = [line.split(" ", 1) for line in lines if not line.startswith("#")]
    return [(word, text) for word, text in pairs]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver around the patch's decoder, compiled here with undefined behaviour as an error."""
    compiler, patch = shutil.which("cc"), shutil.which("patch")
    if not compiler or not patch:
        pytest.skip("needs a C compiler and patch on this machine")
    at = tmp_path_factory.mktemp("decoder")
    subprocess.run([patch, "-s", "-p4", "-d", at, "-i", PATCH], check=True)
    (at / "linux").mkdir()
    (at / "linux/types.h").touch()
    (at / "linux/string.h").write_text("#include <string.h>\n")
    subprocess.run(
        [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
         "-fno-sanitize-recover", f"-I{at}", "-o", at / "driver", DATA / "driver.c"],
        check=True,
    )  # fmt: skip
    return at / "driver"


def decode(decoder: Path, words: list[str]) -> list[str]:
    return subprocess.run(
        [decoder], input="\n".join(words), capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_every_word_reads_as_in_the_disassembly(decoder: Path, words: list[tuple[str, str]]) -> None:
    read = decode(decoder, [word for word, _ in words])
    wrong = [
        f"{word} {text}: {got}, expected {expected(text)}"
        for (word, text), got in zip(words, read, strict=True)
        if got != expected(text)
    ]
    assert not wrong, "\n".join(wrong[:20])


def test_the_words_are_of_every_kind(words: list[tuple[str, str]]) -> None:
    mnemonics = {text.split("\t")[0] for _, text in words if expected(text) != UNKNOWN}
    assert mnemonics >= {
        *("ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "ldrsw", "str", "strb", "strh", "dc"),
        *("ldur", "stur", "ldtr", "sttr", "ldp", "ldpsw", "stp", "ldnp", "stnp"),
        *(f"{verb}{n}" for verb in ("ld", "st") for n in range(1, 5)), *(f"ld{n}r" for n in range(1, 5)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("c85f7c23", "ldxr x3, [x1]"), ("c8dffc23", "ldar x3, [x1]"), ("f8230024", "ldadd x3, x4, [x1]"),
        ("c8a37c24", "cas x3, x4, [x1]"), ("f8bfc023", "ldapr x3, [x1]"), ("58000043", "ldr x3, . + 8"),
        ("f8408c21", "ldr x1, [x1, #8]!"), ("a8c10c23", "ldp x3, x3, [x1], #16"), ("d50b7460", "dc gva, x0"),
        ("f9800020", "prfm pldl1keep, [x1]"), ("d2800000", "mov x0, #0"),
    ],
)  # fmt: skip
def test_what_must_not_be_split_is_refused(decoder: Path, word: str, text: str) -> None:
    assert decode(decoder, [word]) == [UNKNOWN], text
