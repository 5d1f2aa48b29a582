"""Any recorded log is a board: with our times, with the kernel's, or with none."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed
from boardwright.errors import InputError
from boardwright.targets import replay

PANIC = (
    "U-Boot 2025.01 (x)\nDRAM:  8 GiB\nStarting kernel ...\n"
    "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x412fd050]\n"
    "[    7.250000] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n"
)
OURS = "".join(f"{n + 0.5:9.3f}  {line}\n" for n, line in enumerate(PANIC.splitlines()))


@pytest.mark.parametrize(("text", "kernel"), [(PANIC, 0.04), (OURS, 3.5), (PANIC.replace("[   ", "|"), None)])
def test_a_plain_log_gives_its_outcome_and_its_times(text: str, kernel: float | None, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    port = replay.port(path)
    with Console(port, clock=port.clock) as console, pytest.raises(BoardFailed) as caught:
        console.boot(600)
    assert caught.value.state == "root not mounted"
    if kernel is not None:
        assert console.watch.milestones["kernel"] == pytest.approx(kernel, abs=0.02)


def test_what_begins_as_a_recording_and_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.cast"
    path.write_text('{"version": 3}\n')
    with pytest.raises(InputError, match="asciicast v2"):
        replay.port(path)
