"""What is kept of a run: one JSON file per run, named and findable by the image's digest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from boardwright.results.outcome import CheckResult, exit_status

VERSION = 2
"""1 had no lock digest, firmware, evidence and boot; readers take them as unknown."""


def record(
    *,
    image_sha256: str,
    board: str,
    target: str,
    started: datetime,
    results: Sequence[CheckResult],
    about: Mapping[str, Any],
    lock_sha256: str = "",
    firmware: Mapping[str, str] | None = None,
    boot: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The record as a JSON object. ``about``: what was run from (manifest's revision, kernel, command).

    ``lock_sha256``: of all that was taken from mirrors (:func:`lock_digest`). ``firmware``: versions of the
    loader's stages as the board printed them. ``boot``: seconds to each milestone, findings on the way.
    """
    evidence = sorted({str(result.evidence) for result in results})
    return {
        "record": VERSION,
        "image": {"sha256": image_sha256},
        "lock": {"sha256": lock_sha256},
        "evidence": " ".join(evidence),
        "firmware": dict(firmware or {}),
        "boot": dict(boot or {}),
        "board": board,
        "target": target,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_status": int(exit_status(results)),
        **about,
        "checks": [result.as_json() for result in results],
    }


def lock_digest(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of the manifest's ``inputs``, every locked package and file by its own; empty without any."""
    inputs = manifest.get("inputs")
    if not inputs:
        return ""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def keep(out: Path, value: Mapping[str, Any]) -> Path:
    """Write ``results/<image digest>/<time>-<target>.json`` whole or not at all; never over another."""
    stamp = str(value["started"]).replace(":", "").replace("-", "")[:15]
    directory = out / "results" / str(value["image"]["sha256"])
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    temporary = directory / f".{os.getpid()}.new"
    temporary.write_text(text)
    number = 0
    while True:
        path = directory / f"{stamp}-{value['target']}{f'-{number}' if number else ''}.json"
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            number += 1
            continue
        temporary.unlink()
        return path
