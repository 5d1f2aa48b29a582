"""The display stand-in, compiled for this machine: nothing in it is arm64's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardwright.build.sandbox import Seal, argv

HERE = Path(__file__).parent
STANDIN = HERE.parents[1] / "native/kms-standin"


@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        ("", "640x480"),
        ("1680x1050", "1680x1050"),
        ("0x7", "640x480"),
        ("9000x1", "640x480"),
        ("big", "640x480"),
    ],
)
def test_one_connector_one_mode_and_flips_that_are_done_at_once(
    asked: str, mode: str, cross: Path, tmp_path: Path
) -> None:
    seal = Seal(
        root=cross,
        read_only={"/in/test": HERE, "/in/library": STANDIN},
        writable={"/out": tmp_path},
        variables={"ALIGN_HUNT_MODE": asked} if asked else {},
        directory="/out",
    )
    compile_ = "gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -o kms_test /in/test/kms_test.c /in/library/kms.c"
    done = subprocess.run(
        argv(seal, ["bash", "-euc", f"{compile_}; ./kms_test"]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{mode}\n", "")
