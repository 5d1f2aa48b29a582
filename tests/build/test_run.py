"""Processes are logged line by line, sealed from our input, and all gone when we stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import wait_for

from boardwright.build import run


@pytest.fixture(autouse=True)
def _resume() -> Iterator[None]:
    yield
    run.resume()


def test_lines_go_to_the_log_and_to_the_listener(tmp_path: Path) -> None:
    lines: list[str] = []
    script = r"printf 'one\n\n two \n'; printf 'bad \377' >&2; exit 7"
    assert run.run(["sh", "-c", script], tmp_path / "log", line=lines.append) == 7
    assert (tmp_path / "log").read_bytes() == b"one\n\n two \nbad \xff"
    assert lines == ["one", " two", "bad �"]


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    for word in ("one", "two"):
        run.run(["echo", word], tmp_path / "log")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_command_has_no_input_its_own_session_the_given_variables_and_umask(tmp_path: Path) -> None:
    script = 'cat; echo "$A $HOME"; umask; cut -d" " -f6 /proc/self/stat'
    assert (
        run.run(["sh", "-c", script], tmp_path / "log", environment={"A": "1", "PATH": os.environ["PATH"]})
        == 0
    )
    said = (tmp_path / "log").read_text().split("\n")
    assert said[:2] == ["1 ", "0022"]
    assert int(said[2]) != os.getsid(0)


def test_a_line_without_an_end_is_shown_in_parts(tmp_path: Path) -> None:
    lines: list[str] = []
    run.run(["sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x"], tmp_path / "log", line=lines.append)
    assert sum(map(len, lines)) == 200_000
    assert max(map(len, lines)) <= 1 << 16


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run.run(["/nonexistent"], tmp_path / "log")


@pytest.mark.parametrize("script", ["sleep 1000", "trap '' TERM; sleep 1000 & while :; do sleep 1; done"])
def test_stopping_ends_what_runs_with_its_children_and_starts_no_more(tmp_path: Path, script: str) -> None:
    ended: list[type[BaseException]] = []

    def work() -> None:
        try:
            run.run(["sh", "-c", f"echo $$; {script}"], tmp_path / "log", line=started.append)
        except run.Stopped as error:
            ended.append(type(error))

    started: list[str] = []
    worker = threading.Thread(target=work)
    worker.start()
    wait_for(lambda: started, what="the process to start")
    since = time.monotonic()
    run.stop_all()
    worker.join(10)
    assert ended == [run.Stopped]
    assert time.monotonic() - since < 8
    wait_for(lambda: not _group(int(started[0])), what="the whole group to end")
    with pytest.raises(run.Stopped):
        run.run(["touch", str(tmp_path / "late")], tmp_path / "log")
    assert not (tmp_path / "late").exists()
    with pytest.raises(run.Stopped):
        run.pause()


def test_a_group_member_that_outlives_its_leader_is_killed(tmp_path: Path) -> None:
    script = "(trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & echo $$"
    run.run(["sh", "-c", script], tmp_path / "log")
    leader = int((tmp_path / "log").read_text())
    wait_for(lambda: not _group(leader), what="the whole group to end")


def _group(leader: int) -> bool:
    """Whether a process group has members left."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_listener_that_fails_ends_the_process(tmp_path: Path) -> None:
    started: list[int] = []

    def listen(line: str) -> None:
        started.append(int(line))
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        run.run(["sh", "-c", "echo $$; sleep 1000"], tmp_path / "log", line=listen)
    wait_for(lambda: not _group(started[0]), what="the whole group to end")
