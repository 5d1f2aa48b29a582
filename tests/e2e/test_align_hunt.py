"""The real GL drivers on Device memory: unpatched they fault at named places, patched nowhere.

Slow, as it builds Mesa twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from command import invoke

from boardwright.errors import ExitStatus

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KMSCUBE = ("--program", "kmscube -c 60")
GLMARK2 = ("--program", "glmark2-es2-drm -b :duration=0.3", "--seconds", "7200")
COMMANDS = ("si_begin_new_gfx_cs", "si_pm4_emit", "si_draw_vbo")
"""Where amdgpu's command buffers are written: in GTT, on the board Normal memory, here the BAR too."""


def hunt(*words: str, variant: Sequence[str] = ("--variant", "quick")) -> tuple[int, dict[str, Any]]:
    done = invoke("align-hunt", "--board", "rock5b", *variant, "--json", *words, timeout=10_000)
    assert done.returncode in (ExitStatus.OK, ExitStatus.PRODUCT), done.stderr
    return done.returncode, json.loads(done.stdout)


def places(found: dict[str, Any]) -> set[tuple[str, str]]:
    """Object and symbol of what is to be looked at."""
    codes = [site["caller"] or site["code"] for site in found["sites"]]
    return {(code["object"].rpartition("/")[2], code["symbol"]) for code in codes}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("gpu", "words"),
    [("verde", KMSCUBE), ("polaris10", KMSCUBE), ("turks", GLMARK2)],
    ids=lambda v: str(v)[:9],
)
def test_unpatched_the_driver_faults_and_the_hunt_library_lets_it_live(
    gpu: str, words: tuple[str, ...]
) -> None:
    """r600 copies nothing unaligned for kmscube; the kmscube that died on the board ran on radeonsi."""
    status, found = hunt(*words, "--gpu", gpu, "--mesa", "unpatched")
    assert status == ExitStatus.PRODUCT
    assert any(name.startswith("libgallium") for name, _ in places(found))
    assert found["status"] == 0


@pytest.mark.usefixtures("quick")
def test_unpatched_kmscube_alone_dies_as_on_the_board() -> None:
    status, found = hunt(*KMSCUBE, "--mesa", "unpatched", "--env", "ALIGN_HUNT=stop")
    assert status == ExitStatus.PRODUCT
    assert found["status"] == 135
    assert [site["emulated"] for site in found["sites"]] == [False]


@pytest.mark.parametrize("gpu", ["verde", "polaris10"])
def test_unpatched_it_lives_with_the_kernels_fixup_which_counts_what_the_hunt_counted(gpu: str) -> None:
    built = invoke("build", "--board", "rock5b", timeout=10_000)
    assert built.returncode == ExitStatus.OK, built.stderr
    _, found = hunt(*KMSCUBE, "--gpu", gpu, "--mesa", "unpatched", "--fixup", variant=())
    assert found["faults"] > 0
    assert found["fixup"]["status"] == 0
    assert found["fixup"]["counters"] == {"fixed": found["faults"], "unfixed": 0}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("words", [KMSCUBE, GLMARK2], ids=["kmscube", "glmark2"])
@pytest.mark.parametrize("gpu", ["verde", "turks"])
def test_patched_there_is_no_fault_over_the_whole_list(gpu: str, words: tuple[str, ...]) -> None:
    status, found = hunt(*words, "--gpu", gpu, "--mesa", "patched")
    assert places(found) == set()
    assert (status, found["status"]) == (ExitStatus.OK, 0)
    assert found["mappings"] > 0


@pytest.mark.usefixtures("quick")
def test_patched_amdgpu_faults_in_its_command_buffers_only() -> None:
    _, found = hunt(*KMSCUBE, "--gpu", "polaris10", "--mesa", "patched")
    assert found["status"] == 0
    assert [symbol for _, symbol in places(found) if not any(name in symbol for name in COMMANDS)] == []
