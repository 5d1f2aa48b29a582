"""From errors to text and exit statuses: no traceback reaches a user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from boardwright.cli import verb, whole
from boardwright.errors import InputError

PROJECT = Path(__file__).parent.parent

TASKS = """
import os, signal, sys, time
sys.path.insert(0, {project!r})
from invoke.tasks import task
from boardwright.cli import verb
from boardwright.errors import *

@task
@verb
def it(_):
    {body}
"""


def run(
    directory: Path, body: str, shell: str = '"$@"', **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``invoke it`` where the verb ``it`` has this body."""
    (directory / "tasks.py").write_text(TASKS.format(project=str(PROJECT), body=body.replace("\n", "\n    ")))
    return subprocess.run(
        # Whatever runs these tests may ignore signals (nohup does), and a shell cannot take that back.
        ["env", "--default-signal", "bash", "-c", shell, "bash", sys.executable, "-m", "invoke", "it"],
        cwd=directory,
        env={**{k: v for k, v in os.environ.items() if k != "BOARDWRIGHT_TRACEBACK"}, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


STATUSES = {
    "return": (0, ""),
    "return 0": (0, ""),
    "return 1": (1, ""),
    "raise ProductError('it failed', hint='look')": (1, "error: it failed\nhint: look\n"),
    "raise InputError('no', place=Place('b.yaml', 3, 4))": (2, "error: b.yaml:3:4: no\n"),
    "raise InputError('no', place=Place('b.yaml'))": (2, "error: b.yaml: no\n"),
    "raise HostError('disk')": (3, "error: disk\n"),
    "raise IntegrityError('bytes')": (4, "error: bytes\n"),
    "raise BoardwrightError('some')": (2, "error: some\n"),
    "raise KeyboardInterrupt": (130, "\ninterrupted; nothing half-made was kept\n"),
    "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)": (
        130,
        "\ninterrupted; nothing half-made was kept\n",
    ),
    "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)": (
        130,
        "\ninterrupted; nothing half-made was kept\n",
    ),
}


@pytest.fixture
def _signals() -> Iterator[None]:
    """A verb that was interrupted hears no signal any more; pytest shall."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def here(body: str) -> int:
    """Run a verb with this body in this process; its exit status."""
    names: dict[str, Any] = {}
    exec(f"from boardwright.errors import *\nimport os, signal, time\ndef it(_):\n    {body}", names)
    try:
        verb(names["it"])(Context())
    except Exit as end:
        return end.code
    return 0


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("body", STATUSES)
def test_each_end_has_its_status_and_its_words(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(body) == STATUSES[body][0]
    assert capsys.readouterr() == ("", STATUSES[body][1])


def test_the_status_of_a_verb_is_that_of_invoke(tmp_path: Path) -> None:
    done = run(tmp_path, "raise IntegrityError('bytes', hint='look')")
    assert (done.returncode, done.stderr, done.stdout) == (4, "error: bytes\nhint: look\n", "")


@pytest.mark.usefixtures("_signals")
def test_several_input_errors_are_all_shown(capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        "raise InputErrors([InputError('one', place=Place('a.yaml', 1), hint='do this'),"
        " InputError('two', place=Place('a.yaml', 2))])"
    )
    assert here(body) == 2
    assert capsys.readouterr().err == "error: a.yaml:1: one\nhint: do this\nerror: a.yaml:2: two\n"


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("error", ["1 / 0", "{}['x']", "open('/nonexistent')", "[].pop()", "assert not 'so'"])
def test_a_fault_of_our_own_is_one_line_and_a_hint(
    error: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOARDWRIGHT_TRACEBACK", raising=False)
    assert here(error) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: internal fault: ")
    assert "BOARDWRIGHT_TRACEBACK=1" in second


def test_the_traceback_is_there_for_who_asks(tmp_path: Path) -> None:
    done = run(tmp_path, "1 / 0", BOARDWRIGHT_TRACEBACK="1")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, lines: int) -> None:
    done = run(
        tmp_path, f"for _ in range({lines}): print('line')", shell='"$@" | sleep 0; exit ${PIPESTATUS[0]}'
    )
    assert done.returncode in (0, 3)
    assert done.stderr == ""


def test_a_reader_that_went_before_anything_was_written(tmp_path: Path) -> None:
    """The only line is still in Python's buffer when the verb ends."""
    shell = 'exec 3> >(exec true); sleep 0.3; exec "$@" >&3'
    done = run(tmp_path, "print('line')", shell=shell)
    assert (done.returncode, done.stderr) == (3, "")


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    body = "os.kill(os.getpid(), signal.SIGHUP); return 7"
    assert run(tmp_path, body, shell='trap "" HUP; exec "$@"').returncode == 7
    assert run(tmp_path, body).returncode == 130


def test_impatience_does_not_cut_a_clean_end_short(tmp_path: Path) -> None:
    body = (
        "try: os.kill(os.getpid(), signal.SIGINT); time.sleep(5)\n"
        "finally:\n"
        "    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT): os.kill(os.getpid(), number)\n"
        "    print('cleaned up')"
    )
    done = run(tmp_path, body)
    assert (done.returncode, done.stdout) == (130, "cleaned up\n")


def test_a_whole_number_or_the_default() -> None:
    assert (whole("--jobs", "", 7), whole("--jobs", "12", 7)) == (7, 12)
    for text in ("0", "-1", "x", "1.5", "1_0", "\u0663"):
        with pytest.raises(InputError, match="--jobs: expected a whole number"):
            whole("--jobs", text, 7)
