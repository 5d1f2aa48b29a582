"""Recordings made of a scripted board's answers, and the checks run on them: replay cases of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boardwright.bringup.bench import Options
from boardwright.bringup.run import bringup
from boardwright.console.console import Console
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard
from boardwright.console.transcript import Transcript
from boardwright.results.outcome import Evidence
from boardwright.schema.project import Project

ROOT = Path(__file__).parents[2]
BOARD = Project(ROOT).board("rock5b")
BOOT = (
    (0.5, "U-Boot SPL 2025.01 (Jan 06 2025 - 14:17:14 +0000)\nTrying to boot from MMC2\n"),
    (1.0, "NOTICE:  BL31: v2.12.0(release):\nU-Boot 2025.01 (Jan 06 2025 - 14:17:14 +0000)\n"),
    (3.0, "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x414fd0b1]\n"),
    (5.0, "[    4.000000] systemd[1]: systemd 257 running in system mode\n"),
    (9.0, "\nDebian GNU/Linux 13 rock5b ttyS2\n\n"),
)
FINE = Result("", 0)


def record(path: Path, answers: Mapping[str, Result], boot: tuple[tuple[float, str], ...] = BOOT) -> Path:
    """A recording in which each of these commands was asked and answered so."""
    port = BoardPort(ScriptedBoard(Script(boot=boot, answers=answers)))
    with Transcript(path) as transcript:
        console = Console(port, transcript=transcript, clock=port.clock)
        console.boot(600)
        for command, answer in answers.items():
            assert console.run(command, 600) == answer, command
    return path


def play(
    tmp_path: Path,
    test: str,
    answers: Mapping[str, Result | str],
    *,
    manifest: Mapping[str, Any] | None = None,
    boot: tuple[tuple[float, str], ...] = BOOT,
    evidence: Evidence = Evidence.HARDWARE,
) -> dict[str, dict[str, Any]]:
    """The checks by title, of the file ``bringup-tests/<test>`` on a board that answers so.

    Such a board is none of hardware: ``evidence`` only makes the checks do what they would do there.
    """
    full = {c: a if isinstance(a, Result) else Result(a, 0) for c, a in answers.items()}
    recording = record(tmp_path / "made.cast", full, boot)
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / test).symlink_to(ROOT / "bringup-tests" / test)
    options = Options(target="replay", recording=recording, tests=checks, evidence=evidence)
    bringup(None, BOARD, manifest or {}, Path("/nowhere"), tmp_path, options)
    found = json.loads((tmp_path / "bringup.json").read_text())["checks"]
    return {check["check"]: check for check in found}


def value(check: Mapping[str, Any], name: str) -> Any:
    """A measurement's value."""
    return next(m["value"] for m in check["measurements"] if m["name"] == name)
