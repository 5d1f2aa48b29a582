"""How often a run is run: only the lab is ever given a second chance."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import struct
import termios
import threading

import pytest

from boardwright.bringup.progress import Progress, plain
from boardwright.bringup.repeat import Plan, repeated
from boardwright.errors import ExitStatus, HostError, InputError, ProductError

OK, PRODUCT, HOST, INTERRUPTED = ExitStatus.OK, ExitStatus.PRODUCT, ExitStatus.HOST, ExitStatus.INTERRUPTED


@pytest.mark.parametrize(
    ("plan", "ends", "status", "runs"),
    [
        (Plan(), [OK], OK, 1),
        (Plan(), [HOST], HOST, 1),
        (Plan(retries=2), [HOST, HOST, OK], OK, 3),
        (Plan(retries=2), [HOST, HOST, HOST], HOST, 3),
        (Plan(retries=2), [PRODUCT], PRODUCT, 1),  # never tried again
        (Plan(retries=1), [HOST, PRODUCT], PRODUCT, 2),
        (Plan(times=3), [OK, PRODUCT, OK], PRODUCT, 3),
        (Plan(times=3), [OK, HOST, OK], HOST, 3),
        (Plan(times=3), [HOST, PRODUCT, HOST], PRODUCT, 3),
        (Plan(times=5, until_fail=True), [OK, OK, PRODUCT], PRODUCT, 3),
        (Plan(times=3, until_fail=True), [OK, HOST, OK], HOST, 3),  # a lab error is no failure found
        (Plan(times=9), [OK, INTERRUPTED], INTERRUPTED, 2),
    ],
)
def test_runs(plan: Plan, ends: list[int], status: int, runs: int) -> None:
    left = list(ends)
    attempts = []

    def once(attempt: int) -> int:
        attempts.append(attempt)
        return left.pop(0)

    assert repeated(once, plan, lambda _: None) == status
    assert len(attempts) == runs


def test_a_lab_that_cannot_even_start_is_tried_again_and_then_told() -> None:
    said: list[str] = []

    def once(attempt: int) -> int:
        raise HostError(f"no adapter ({attempt})")

    with pytest.raises(HostError, match=r"no adapter \(2\)"):
        repeated(once, Plan(retries=1), said.append)
    assert said == ["no adapter (1): attempt 2 of 2"]


def test_a_lab_that_cannot_start_once_does_not_end_a_nights_runs() -> None:
    said: list[str] = []
    ends: list[int | None] = [OK, None, OK]

    def once(_: int) -> int:
        end = ends.pop(0)
        if end is None:
            raise HostError("no adapter", hint="plug it in")
        return end

    assert repeated(once, Plan(times=3), said.append) == HOST
    assert said == [
        "run 1 of 3: pass; 1 of 1 passed",
        "error: no adapter\nhint: plug it in",
        "run 2 of 3: error; 1 of 2 passed",
        "run 3 of 3: pass; 2 of 3 passed",
    ]


@pytest.mark.parametrize("error", [InputError("x"), ProductError("x")])
def test_other_errors_are_not_tried_again(error: Exception) -> None:
    count = 0

    def once(_: int) -> int:
        nonlocal count
        count += 1
        raise error

    with pytest.raises(type(error)):
        repeated(once, Plan(retries=5), lambda _: None)
    assert count == 1


@pytest.mark.parametrize(("times", "retries"), [(0, 0), (-1, 0), (1, -1), (10**6, 0)])
def test_a_plan_that_makes_no_sense(times: int, retries: int) -> None:
    with pytest.raises(InputError, match="expected 1 to"):
        Plan(times=times, retries=retries)


def test_until_it_fails_takes_a_number_of_runs() -> None:
    with pytest.raises(InputError, match="--until-fail takes"):
        Plan(until_fail=True)


class Seen(io.StringIO):
    """A log that tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        done = super().write(text)
        self.written.set()
        return done


def test_progress_shows_what_changes_and_keeps_lines_whole() -> None:
    stream = Seen()
    with Progress(lambda: "kernel: \x1b[2J[ 1.0] hello\n", stream, every=0.01) as progress:
        assert stream.written.wait(10)
        progress.say("pass   boots (31.3 s)")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "kernel:  [2J[ 1.0] hello "
    assert "pass   boots (31.3 s)" in lines


def test_progress_is_one_line_of_a_terminals_width() -> None:
    assert plain("a\x1b]0;x\x07\nb" + "c" * 500).isprintable()
    assert len(plain("c" * 500)) == 100


def test_progress_is_one_line_of_a_narrow_terminal_too() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(theirs, "w") as stream, Progress(lambda: "c" * 100, stream, every=0.01):
        assert select.select([ours], [], [], 10)[0]
        shown = os.read(ours, 4096)
    os.close(ours)
    assert shown.removeprefix(b"\r\x1b[2K") == b"c" * 39
