"""The real GL drivers on Device memory: unpatched they fault at named places, patched nowhere.

Slow, as it builds Mesa twice.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from command import invoke

from boardwright.errors import ExitStatus
from boardwright.hunt.run import GPUS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KMSCUBE = ("--program", "kmscube -c 60")
GLMARK2 = ("--program", "glmark2-es2-drm -b :duration=0.2", "--seconds", "7200")


def hunt(*words: str) -> tuple[int, dict[str, Any]]:
    done = invoke("align-hunt", "--board", "rock5b", "--variant", "quick", "--json", *words, timeout=10_000)
    assert done.returncode in (ExitStatus.OK, ExitStatus.PRODUCT), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("gpu", GPUS)
def test_kmscube_faults_in_the_driver_without_the_patches_and_nowhere_with_them(gpu: str) -> None:
    status, found = hunt(*KMSCUBE, "--gpu", gpu, "--mesa", "unpatched")
    assert status == ExitStatus.PRODUCT
    places = {
        site["caller"]["object"] if site["caller"] else site["code"]["object"] for site in found["sites"]
    }
    assert any("libgallium" in place for place in places)
    assert found["status"] == 0, "the hunt library lets the program live"

    status, found = hunt(*KMSCUBE, "--gpu", gpu, "--mesa", "patched")
    assert found["sites"] == []
    assert status == ExitStatus.OK
    assert found["mappings"] > 0


@pytest.mark.usefixtures("quick")
def test_unpatched_kmscube_alone_dies_as_on_the_board() -> None:
    status, found = hunt(*KMSCUBE, "--mesa", "unpatched", "--env", "ALIGN_HUNT=stop")
    assert status == ExitStatus.PRODUCT
    assert found["status"] == 135
    assert [site["count"] for site in found["sites"]] == [1]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("gpu", GPUS)
def test_glmark2_runs_its_whole_list_without_a_fault(gpu: str) -> None:
    status, found = hunt(*GLMARK2, "--gpu", gpu, "--mesa", "patched")
    assert found["sites"] == []
    assert (status, found["status"]) == (ExitStatus.OK, 0)
