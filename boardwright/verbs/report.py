"""``invoke report``: a run as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

from boardwright.console.transcript import read, timed_lines
from boardwright.errors import ExitStatus, InputError, Place
from boardwright.results import report as page
from boardwright.results.history import History
from boardwright.verbs.common import request
from boardwright.verbs.results import history_file


def report(root: Path, board: str, variant: str, run: str, to: str) -> int:
    """Write the page of the board's last run, or of ``run`` of the history."""
    asked = request(root, board, variant)
    path = write(asked.out / "bringup", run, asked.board_name, to)
    print(path)
    return ExitStatus.OK


def write(out: Path, run: str, board: str, to: str) -> Path:
    """The page's path: ``to``, or ``report.html`` in ``out``.

    The transcript is kept of the last run, and of those that did not pass; the page of another one has its
    checks and plots.
    """
    if run:
        value = History(history_file()).find(run, board=board).record
        kept = Path(str(value.get("transcript", "")))
        transcript = list(timed_lines(read(kept))) if kept.is_file() else []
    else:
        source = out / "bringup.json"
        try:
            value = json.loads(source.read_text())
            transcript = (out / "console.log").read_text().splitlines()
        except FileNotFoundError as error:
            raise InputError(
                "not there yet", place=Place(str(error.filename)), hint="run invoke bringup first"
            ) from error
        except ValueError as error:
            raise InputError(f"not JSON: {error}", place=Place(str(source))) from error
    path = Path(to) if to else out / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.page(value, transcript))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", place=Place(str(path))) from error
    return path
