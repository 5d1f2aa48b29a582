"""One budget: a byte in the pipe for each job nobody holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import wait_for

from boardwright.build.jobs import Jobs
from boardwright.errors import InputError


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(2, tmp_path)
    yield made
    made.close()


def _free(jobs: Jobs) -> int:
    pipe = os.open(jobs.path, os.O_RDWR | os.O_NONBLOCK)
    try:
        found = os.read(pipe, 100)
        os.write(pipe, found)
        return len(found)
    except BlockingIOError:
        return 0
    finally:
        os.close(pipe)


def test_a_held_job_is_out_of_the_pipe_and_comes_back_whatever_happens(jobs: Jobs) -> None:
    assert _free(jobs) == 2
    with pytest.raises(ValueError), jobs.one():  # noqa: PT012
        assert _free(jobs) == 1
        raise ValueError
    assert _free(jobs) == 2


def test_one_more_than_there_are_waits(jobs: Jobs) -> None:
    got = threading.Event()

    def third() -> None:
        with jobs.one():
            got.set()

    with jobs.one():
        with jobs.one():
            waiting = threading.Thread(target=third)
            waiting.start()
            assert not got.wait(0.2)
        wait_for(got.is_set, what="the third to get its job")
    waiting.join()


@pytest.mark.parametrize("count", [0, -3, 4097])
def test_a_senseless_count_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(InputError, match="must be 1 to 4096"):
        Jobs(count, tmp_path)


def test_the_largest_count_fits_the_pipe(tmp_path: Path) -> None:
    jobs = Jobs(4096, tmp_path)
    assert jobs.variables()["JOBS"] == "4096"
    jobs.close()


def _make_takes_pipes_by_name() -> bool:
    make = shutil.which("make")
    if make is None:
        return False
    said = subprocess.run([make, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"GNU Make (\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 4)


@pytest.mark.skipif(not _make_takes_pipes_by_name(), reason="make 4.4 or later is needed on the host")
def test_two_makes_together_run_no_more_than_the_budget(jobs: Jobs, tmp_path: Path) -> None:
    """Each make counts the jobs that run beside its own."""
    rule = "\t@touch run.$@; ls run.* | wc -l >>count; sleep 0.2; rm run.$@\n"
    for name in "ab":
        text = "".join(f"{name}{n}:\n{rule}" for n in range(4))
        (tmp_path / f"{name}.mk").write_text(f"all: {' '.join(f'{name}{n}' for n in range(4))}\n{text}")
    flags = jobs.variables()["MAKEFLAGS"].replace("/jobserver", str(jobs.path))
    environment = {**os.environ, "MAKEFLAGS": flags}

    def make(name: str) -> None:
        with jobs.one():
            command = ["make", "-f", f"{name}.mk", "all"]
            subprocess.run(command, cwd=tmp_path, env=environment, check=True)

    threads = [threading.Thread(target=make, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [int(line) for line in (tmp_path / "count").read_text().split()]
    assert len(counts) == 8
    assert max(counts) == 2
