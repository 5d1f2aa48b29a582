"""Files that patches create, taken out of them as `patch` would make them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from boardwright.sealed.newfiles import created

ROOT = Path(__file__).parents[2]


HEAD = "From: x\nSubject: [PATCH] util: a helper\n\n+++ b/src/new.c is not a diff line\n---\n"


def patch(path: str, text: str) -> str:
    lines = text.splitlines()
    count = f",{len(lines)}" if len(lines) != 1 else ""
    body = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1{count} @@\n{body}"


@pytest.mark.parametrize("text", ["int a;\n", "int a;\n\n++b;\n-- c;\n@@ not a hunk\n", "--- /dev/null\n"])
def test_a_created_file_is_what_patch_makes_of_it(text: str, tmp_path: Path) -> None:
    whole = (
        HEAD
        + "--- a/old.c\n+++ b/old.c\n@@ -1 +1,2 @@\n x\n+y\n"
        + patch("src/new.c", text)
        + patch("z", "z\n")
    )
    (tmp_path / "old.c").write_text("x\n")
    subprocess.run(["patch", "-p1", "--silent"], cwd=tmp_path, input=whole, text=True, check=True)
    assert created(whole, "src/new.c") == (tmp_path / "src/new.c").read_text() == text


def test_a_file_that_is_only_changed_is_not_created() -> None:
    assert created("--- a/x.c\n+++ b/x.c\n@@ -1 +1,2 @@\n x\n+y\n", "x.c") is None


def test_a_file_that_no_patch_creates_is_named(tmp_path: Path) -> None:
    (tmp_path / "0001-x.patch").write_text(patch("a.c", "a\n"))
    command = [
        sys.executable,
        "-S",
        "-m",
        "boardwright.sealed.newfiles",
        "--patches",
        str(tmp_path),
        "--to",
        ".",
    ]
    done = subprocess.run([*command, "b.c"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error: no patch of 0001-x.patch creates b.c" in done.stderr


def test_a_port_to_another_line_comes_after_the_patch_itself(tmp_path: Path) -> None:
    (tmp_path / "0001-x.22.3.patch").write_text(patch("a.c", "port\n"))
    (tmp_path / "0001-x.patch").write_text(patch("a.c", "own\n"))
    command = [sys.executable, "-S", "-m", "boardwright.sealed.newfiles", "--patches", str(tmp_path)]
    subprocess.run([*command, "--to", str(tmp_path), "a.c"], cwd=ROOT, check=True)
    assert (tmp_path / "a.c").read_text() == "own\n"
