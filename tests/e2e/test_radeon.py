"""The image for a card, on QEMU's RV100: how memory is mapped, with and without snooping, each variant.

Needs the compiled kernel and Mesa, so it belongs to the slow tier. The emulated card executes no command: its
ring test fails as it should, and the display stays.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from command import ROOT, invoke

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CARD = ("--device", "ati-vga,model=rv100", "--lab")
RING = "the ring is mapped for the kernel as the card's coherence asks"
VRAM = "card memory is mapped for programs as asked"
SYSTEM = "buffers in memory (system) are mapped for programs as the card's coherence asks"
KERNEL = "card memory is mapped for the kernel as asked"


def rows(variant: str, *words: str) -> dict[str, dict[str, Any]]:
    """Build the variant, bring it up with the card, and give the checks by name."""
    built = invoke("build", "--board", "rock5b", "--variant", variant)
    assert built.returncode == 0, built.stderr
    done = invoke("bringup", "--board", "rock5b", "--variant", variant, *CARD, *words)
    found = json.loads((ROOT / f"out/rock5b-{variant}/bringup/bringup.json").read_text())["checks"]
    bad = [check for check in found if check["outcome"] in ("fail", "error")]
    assert (done.returncode, bad) == (0, [])
    return {check["check"]: check for check in found}


def value(row: dict[str, Any], name: str) -> object:
    assert row["outcome"] == "pass", row
    return next(m["value"] for m in row["measurements"] if m["name"] == name)


@pytest.mark.parametrize(
    ("variant", "vram", "unaligned"),
    [("egpu", "MEM/NORMAL-NC", "taken"), ("device-memory", "DEVICE/nGnRE", "alignment fault")],
)
def test_card_memory_is_mapped_as_the_variant_says(variant: str, vram: str, unaligned: str) -> None:
    found = rows(variant)
    assert value(found[VRAM], "attributes") == vram
    assert value(found[VRAM], "an unaligned access") == unaligned
    assert value(found[KERNEL], "attributes") == vram
    # QEMU's port snoops: nothing changes.
    assert value(found[RING], "attributes") == value(found[SYSTEM], "attributes") == "MEM/NORMAL"


def test_a_port_that_does_not_snoop_takes_system_memory_out_of_the_cache() -> None:
    found = rows("egpu", "--noncoherent")
    assert value(found[RING], "attributes") == value(found[SYSTEM], "attributes") == "MEM/NORMAL-NC"
    assert value(found["radeon says whether its DMA snoops the caches"], "DMA") == "does not snoop"
