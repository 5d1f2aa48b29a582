"""``invoke bringup``: run the checks on a target, show the table, and keep what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from boardwright.bringup.bench import Bench, Options
from boardwright.bringup.plugin import Session
from boardwright.console import transcript
from boardwright.errors import ExitStatus, HostError, InputError
from boardwright.results import junit, record, table
from boardwright.results.outcome import CheckResult, exit_status
from boardwright.schema.board import Board


def bringup(
    image: Path | None,
    board: Board,
    manifest: Mapping[str, Any],
    qemu_root: Path,
    out: Path,
    options: Options | None = None,
) -> int:
    """Boot ``image`` (the file that ``manifest`` describes) and check it; the exit status.

    Files in ``out``: ``console.cast`` and ``console.log`` (the transcript), ``bringup.xml`` (JUnit),
    ``bringup.json``, and a record below ``results/``. 0: all checks passed or were skipped with a reason;
    1: the product is wrong; 3: the lab is.
    """
    options = options or Options()
    if image is not None and not image.exists():
        raise InputError(f"expected an image at {image}", hint=f"run invoke build --board {board.board}")
    out.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC)
    cast = out / "console.cast"
    _say(f"booting {image.name if image else options.recording} on {options.target}, transcript {cast}")
    with Bench(image, board, manifest, qemu_root, cast, options) as bench:
        session = Session(bench, on_result=_progress)
        interrupted = _run(session, options.tests)
        digest = bench.image_sha256 or bench.expected.image_sha256 or "unknown"
    results = session.results
    _write_log(cast, out / "console.log")
    about = {
        "manifest": {k: manifest.get(k) for k in ("tool", "variant", "kernel")},
        "image_file": str(image),
    }
    value = record.record(
        image_sha256=digest,
        board=board.board,
        target=options.target,
        started=started,
        results=results,
        about=about,
    )
    _report(out, board, options, results, value)
    table.show(results, sys.stdout)
    return ExitStatus.INTERRUPTED if interrupted else exit_status(results)


def _run(session: Session, tests: Path) -> bool:
    """Run pytest in this process; true when Ctrl-C ended it. Its own reports are not shown."""
    import pytest

    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "--disable-plugin-autoload", "-p", "no:junitxml"]
    status = pytest.main(
        [
            *quiet,
            "--import-mode=importlib",
            "--capture=no",
            f"--rootdir={tests}",
            "-c",
            "/dev/null",
            str(tests),
        ],
        plugins=[session],
    )
    if status in (
        pytest.ExitCode.USAGE_ERROR,
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        raise HostError(f"no check could be run from {tests} (pytest: {pytest.ExitCode(status).name})")
    if status == pytest.ExitCode.INTERRUPTED and not session.results:
        raise HostError(f"the checks in {tests} cannot be loaded", hint=f"run python -m pytest {tests}")
    return status == pytest.ExitCode.INTERRUPTED


def _report(
    out: Path, board: Board, options: Options, results: Sequence[CheckResult], value: Mapping[str, Any]
) -> None:
    properties = {
        "board": board.board, "target": options.target, "image sha256": str(value["image"]["sha256"]),
        "started": str(value["started"]),
    }  # fmt: skip
    suite = f"bringup.{board.board}.{options.target}"
    (out / "bringup.xml").write_text(
        junit.junit(suite, results, properties, (out / "console.log").read_text())
    )
    (out / "bringup.json").write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
    record.keep(out, value)


def _write_log(cast: Path, log: Path) -> None:
    """The transcript for people; empty when the board was never reached."""
    lines = transcript.timed_lines(transcript.read(cast)) if cast.exists() else iter(())
    log.write_text("".join(f"{line}\n" for line in lines))


def _progress(result: CheckResult) -> None:
    _say(f"{result.outcome:<6} {result.check} ({result.seconds:.1f} s)")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
