"""The command line of ``invoke repartition``: what it refuses before a cable is touched; the layout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from boardwright.errors import InputError
from boardwright.layout import bootargs
from boardwright.verbs import repartition
from boardwright.verbs.common import request

ROOT = Path(__file__).parents[2]
MAIX = ("--board", "maix-iv")


def invoke(*words: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "invoke", "repartition", *words],
        capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "BOARDWRIGHT_CACHE": str(cache)},
    )  # fmt: skip


def test_without_a_layout_it_is_the_board_files() -> None:
    asked = request(ROOT, "maix-iv", "")
    assert repartition._layout(asked, "") == bootargs.value(
        bootargs.bootargs(asked.context.board), "blkdevparts"
    )


def test_a_layout_is_read_from_a_file_of_the_project_or_taken_as_it_stands() -> None:
    asked = request(ROOT, "maix-iv", "")
    text = "mmcblk0:1536K(uboot),-(rootfs)"
    assert repartition._layout(asked, f"blkdevparts={text}") == text
    with pytest.raises(InputError, match=r"expected blkdevparts such as .* found 'README'"):
        repartition._layout(asked, "README")


@pytest.mark.parametrize(("words", "said"), [
    (("--board", "rock5b", "--console", "serial:ttyUSB0"), "rock5b has a GPT"),
    (MAIX, "--console: expected serial:PORT or labgrid:PLACE, found ''"),
    ((*MAIX, "--console", "qemu"), "--console: expected serial:PORT or labgrid:PLACE, found 'qemu'"),
    ((*MAIX, "--console", "serial:x", "--to", "nothing"), "--to: expected blkdevparts such as"),
])  # fmt: skip
def test_a_wrong_request_ends_with_2_and_no_traceback(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = invoke(*words, cache=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert said in done.stderr
