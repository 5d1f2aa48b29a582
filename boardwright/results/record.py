"""What is kept of a run: one JSON file per run, named and findable by the image's digest."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from boardwright.results.outcome import CheckResult, exit_status

VERSION = 1


def record(
    *,
    image_sha256: str,
    board: str,
    target: str,
    started: datetime,
    results: Sequence[CheckResult],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The record as a JSON object. ``about``: what was run from (manifest's revision, kernel, command)."""
    return {
        "record": VERSION,
        "image": {"sha256": image_sha256},
        "board": board,
        "target": target,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_status": int(exit_status(results)),
        **about,
        "checks": [result.as_json() for result in results],
    }


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


def of_image(out: Path, image_sha256: str) -> list[dict[str, Any]]:
    """The records of an image, oldest first."""
    directory = out / "results" / image_sha256
    found = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    return sorted(found, key=lambda value: str(value["started"]))
