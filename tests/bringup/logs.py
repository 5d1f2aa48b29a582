"""The log files of ``data/logs``: each written by us in the format of one program or kernel."""

from __future__ import annotations

from pathlib import Path

LOGS = Path(__file__).parent / "data/logs"


def log(name: str) -> str:
    return (LOGS / name).read_text()
