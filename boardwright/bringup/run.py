"""``invoke bringup``: run the checks on a target, show the table, and keep what was found."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from boardwright.bringup.bench import Bench, Options
from boardwright.bringup.parsers import boot_time, provenance
from boardwright.bringup.plugin import Session
from boardwright.bringup.progress import Progress
from boardwright.bringup.repeat import Plan, repeated
from boardwright.console import transcript
from boardwright.errors import BoardwrightError, ExitStatus, HostError, InputError
from boardwright.results import junit, record, report, table
from boardwright.results.history import History
from boardwright.results.outcome import CheckResult
from boardwright.schema.board import Board


def bringup(
    image: Path | None,
    board: Board,
    manifest: Mapping[str, Any],
    qemu_root: Path,
    out: Path,
    options: Options | None = None,
    plan: Plan | None = None,
) -> int:
    """Boot ``image`` (the file that ``manifest`` describes) and check it; the exit status.

    Files in ``out``, of the last run: ``console.cast`` and ``console.log`` (the transcript), ``bringup.xml``
    (JUnit), ``bringup.json``, ``report.html``; and of every run a record below ``results/``, and in the
    history when ``options`` name one. Beside the record of a run that did not pass stands its transcript.
    0: all checks passed or were skipped with a reason; 1: the product is wrong; 3: the lab is. ``plan``: how
    often, and whether lab errors are tried again.
    """
    options = options or Options()
    if image is not None and not image.exists():
        raise InputError(f"expected an image at {image}", hint=f"run invoke build --board {board.board}")

    def once(attempt: int) -> int:
        return _once(image, board, manifest, qemu_root, out, options, attempt)

    return repeated(once, plan or Plan(), _say)


def _once(
    image: Path | None,
    board: Board,
    manifest: Mapping[str, Any],
    qemu_root: Path,
    out: Path,
    options: Options,
    attempt: int,
) -> int:
    out.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC)
    cast = out / "console.cast"
    if options.recording is None or options.recording.resolve() != cast.resolve():
        cast.unlink(missing_ok=True)  # else a run that never came to a console would show the last one's
    what = image.name if image else options.recording or board.board
    _say(f"booting {what} on {options.target}, transcript {cast}")
    with Bench(image, board, manifest, qemu_root, cast, options) as bench:
        session = Session(bench)
        with Progress(lambda: f"{session.now or 'starting'} | {bench.activity}") as progress:
            session.on_result = lambda result: progress.say(_row(result))
            interrupted = _run(session, options)
        digest = bench.image_sha256 or bench.expected.image_sha256 or "unknown"
        boot = _boot(bench)
    results = session.results
    _write_log(cast, out / "console.log")
    console = (out / "console.log").read_text()
    about = {
        "manifest": {k: manifest.get(k) for k in ("tool", "variant", "kernel")},
        "image_file": str(image),
        "attempt": attempt,
    }
    value = record.record(
        image_sha256=digest,
        board=board.board,
        target=options.target,
        started=started,
        results=results,
        about=about,
        lock_sha256=record.lock_digest(manifest),
        firmware=firmware(console),
        boot=boot,
    )
    if interrupted:
        value["exit_status"] = int(ExitStatus.INTERRUPTED)
    kept = _report(out, value, results, console)
    if value["exit_status"] != ExitStatus.OK and cast.exists():  # the next run has console.cast to itself
        value["transcript"] = str(shutil.copyfile(cast, kept.with_suffix(".cast")).resolve())
    if options.history is not None:
        _say(f"run {History(options.history).add(value)} of the history: invoke results")
    table.show(results, sys.stdout)
    return int(value["exit_status"])


def _run(session: Session, options: Options) -> bool:
    """Run pytest in this process; true when Ctrl-C ended it. Its own reports are not shown."""
    import pytest

    tests = options.tests
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "--disable-plugin-autoload", "-p", "no:junitxml"]
    # Modules are named after their path from the root: below the directory's parent, a check is not taken for
    # another module of its file's name, which this process may have loaded.
    root = f"--rootdir={tests.resolve().parent}"
    where = ["--import-mode=importlib", "--capture=no", root, "-c", "/dev/null", str(tests)]
    status = pytest.main([*quiet, *where], plugins=[session])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and options.only:
        raise InputError(
            f"no check in {tests} has a name, a file or a title with one of {options.only!r}",
            hint="such as --only boot,rings; the titles stand in the table, the names in bringup-tests/",
        )
    if status in (
        pytest.ExitCode.USAGE_ERROR,
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        raise HostError(f"no check could be run from {tests} (pytest: {pytest.ExitCode(status).name})")
    if status == pytest.ExitCode.INTERRUPTED and not session.results and not session.now:
        raise HostError(f"the checks in {tests} cannot be loaded", hint=f"run python -m pytest {tests}")
    return status == pytest.ExitCode.INTERRUPTED


def firmware(console: str) -> dict[str, str]:
    """Versions of the loader's stages, and the medium it came from, as the console showed them."""
    loader = provenance.parse(transcript.untimed(console.splitlines()))
    return loader.versions | ({"medium": loader.medium} if loader.source else {})


def _boot(bench: Bench) -> dict[str, Any]:
    """Milestones, stages and findings of the boot; what is known of one that failed."""
    boot = bench.booted
    if boot is None or isinstance(boot, BoardwrightError):
        return {"findings": [_finding(f) for f in getattr(boot, "findings", ())]}
    return {
        "seconds": boot.seconds,
        "milestones": boot.milestones,
        "stages": boot_time.stages(boot.milestones, boot.seconds),
        "findings": [_finding(finding) for finding in boot.findings],
    }


def _finding(finding: Any) -> dict[str, Any]:
    return {"name": str(finding.name), "seconds": float(finding.seconds), "line": str(finding.line)}


def _report(out: Path, value: Mapping[str, Any], results: list[CheckResult], console: str) -> Path:
    """Write the files of the last run; the path of the record that is kept."""
    properties = {
        "board": str(value["board"]), "target": str(value["target"]), "started": str(value["started"]),
        "image sha256": str(value["image"]["sha256"]), "lock sha256": str(value["lock"]["sha256"]),
    }  # fmt: skip
    suite = f"bringup.{value['board']}.{value['target']}"
    (out / "bringup.xml").write_text(junit.junit(suite, results, properties, console))
    (out / "bringup.json").write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
    (out / "report.html").write_text(report.page(value, console.splitlines()))
    return record.keep(out, value)


def _write_log(cast: Path, log: Path) -> None:
    """The transcript for people; empty when the board was never reached."""
    lines = transcript.timed_lines(transcript.read(cast)) if cast.exists() else iter(())
    log.write_text("".join(f"{line}\n" for line in lines))


def _row(result: CheckResult) -> str:
    return f"{result.outcome:<6} {result.check} ({result.seconds:.1f} s)"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
