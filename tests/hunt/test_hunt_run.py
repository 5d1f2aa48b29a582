"""What is run on the board: the variables and the script, run here by a real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardwright.console.shell import LONGEST_COMMAND
from boardwright.hunt import run
from boardwright.hunt.run import GPUS, Hunt, environment, script

BAR = "/sys/bus/pci/devices/0000:00:03.0/resource2"


@pytest.mark.parametrize("gpu", GPUS)
def test_the_hunt_library_comes_first_and_the_card_is_named_to_its_stand_in(gpu: str) -> None:
    found = environment(Hunt("kmscube", gpu=gpu), BAR)
    driver, variable = GPUS[gpu]
    libraries = [Path(name).name for name in found["LD_PRELOAD"].split()]
    assert libraries == ["libalign-hunt.so", "libkms-standin.so", f"lib{driver}_noop_drm_shim.so"]
    assert found[variable] == gpu
    assert found["DRM_SHIM_MEMORY"] == BAR


def test_the_images_own_mesa_is_left_where_it_is() -> None:
    found = environment(Hunt("kmscube", own_mesa=False), BAR)
    assert "LD_LIBRARY_PATH" not in found
    assert "/mesa/" in found["LD_PRELOAD"]  # the stand-in for the card is on the disk all the same


def test_the_users_variables_win() -> None:
    assert (
        environment(Hunt("kmscube", variables={"MESA_DEVICE_MEMORY": "off"}), BAR)["MESA_DEVICE_MEMORY"]
        == "off"
    )


def test_every_line_fits_the_console() -> None:
    assert max(map(len, script("kmscube", environment(Hunt("kmscube"), BAR)))) < LONGEST_COMMAND / 2


def test_the_script_runs_the_program_with_its_variables_and_a_silent_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "DIRECTORY", str(tmp_path))
    program = 'timeout 1 cat; echo cat ended with $?; echo "$GREETING"; exit 3'
    what = Hunt(program, variables={"GREETING": "it's $HOME", "LD_PRELOAD": ""})
    text = "\n".join(run.script(program, environment(what, BAR)))
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == ["cat ended with 124", "it's $HOME"]
    assert done.returncode == 3
