"""The store holds whole entries or none, knows when one was touched, and keeps what is in use."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import Bench, plan_of, step, wait_for

from boardwright.build import digest, store
from boardwright.build.store import Entry, Store
from boardwright.errors import HostError, IntegrityError

KEY = "ab" * 32
AS_ROOT = os.geteuid() == 0


def fill(scratch: Path, text: str = "bytes") -> None:
    out = scratch / "out"
    (out / "tree/empty").mkdir(parents=True)
    (out / "tree/file").write_text(text)
    (out / "tree/run").write_text("run")
    (out / "tree/run").chmod(0o755)
    (out / "link").symlink_to("tree/file")
    (scratch / "log").write_text("said\n")


def put(made: Store, key: str = KEY, text: str = "bytes") -> Entry:
    with made.locked(key):
        if found := made.find(key):
            return found
        with made.scratch(key) as scratch:
            fill(scratch, text)
            return made.commit(key, scratch, "a step", {"script": "x"})


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def opened(tmp_path: Path, notes: list[str]) -> Callable[[], Store]:
    """The store as a new process opens it."""
    return lambda: Store(tmp_path / "store", note=notes.append)


def test_what_was_committed_is_found_with_its_files_log_and_record(opened: Callable[[], Store]) -> None:
    put(opened())
    found = opened().find(KEY)
    assert found is not None
    assert (found.out / "link").read_text() == "bytes"
    assert found.log.read_text() == "said\n"
    described = found.description()
    assert (described["step"], described["key"], described["record"]) == ("a step", KEY, {"script": "x"})
    assert [row[:4] for row in described["files"]] == [
        ["link", "link", 0, 0],
        ["tree", "directory", 0, 0],
        ["tree/empty", "directory", 0, 0],
        ["tree/file", "file", 0, 5],
        ["tree/run", "file", 1, 3],
    ]
    assert found.digests()["tree/file"] == digest.of_file(found.out / "tree/file")


def test_nothing_is_found_where_nothing_is_and_nothing_is_made_by_looking(
    opened: Callable[[], Store], tmp_path: Path
) -> None:
    assert opened().find(KEY) is None
    assert opened().entries() == []
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_directory_is_gone_whatever_happens(opened: Callable[[], Store]) -> None:
    class Wrong(Exception):
        pass

    with pytest.raises(Wrong), opened().scratch(KEY) as scratch:  # noqa: PT012
        (scratch / "closed").mkdir()
        (scratch / "closed/file").touch()
        (scratch / "closed").chmod(0o500)
        raise Wrong
    assert not scratch.exists()


def test_a_copied_cache_is_hashed_once_and_then_trusted(opened: Callable[[], Store], tmp_path: Path) -> None:
    put(opened())
    subprocess.run(["cp", "-r", tmp_path / "store", tmp_path / "copied"], check=True)
    copied = Store(tmp_path / "copied")
    before = (copied.directory / KEY / "state.json").read_text()
    assert copied.find(KEY) is not None
    assert (copied.directory / KEY / "state.json").read_text() != before


def _flip(path: Path, at: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _quietly(path: Path, at: int = 1) -> None:
    """Change a byte and put the time back, as a tool that means to hide it would."""
    info = path.stat()
    _flip(path, at)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped byte": (lambda e: _flip(e / "out/tree/file"), "tree/file is not what was stored"),
    "flipped byte, time put back": (lambda e: _quietly(e / "out/tree/file"), "tree/file is not what"),
    "shorter file": (lambda e: (e / "out/tree/file").write_text("byt"), "tree/file is not what was stored"),
    "no longer executable": (lambda e: (e / "out/tree/run").chmod(0o644), "tree/run is not what was stored"),
    "missing file": (lambda e: (e / "out/tree/file").unlink(), "tree/file is missing"),
    "missing directory": (lambda e: (e / "out/tree/empty").rmdir(), "tree/empty is missing"),
    "added file": (lambda e: (e / "out/more").touch(), "more does not belong to it"),
    "added directory": (lambda e: (e / "out/tree/more").mkdir(), "tree/more does not belong to it"),
    "other link": (
        lambda e: ((e / "out/link").unlink(), (e / "out/link").symlink_to("x")),
        "link is not what",
    ),
    "no files at all": (lambda e: store.remove_tree(e / "out"), "unreadable"),
    "a digest in entry.json": (
        lambda e: _flip(e / "entry.json", (e / "entry.json").read_text().index("tree/run") + 40),
        "entry.json is not what was stored",
    ),
    "a brace of entry.json": (lambda e: _flip(e / "entry.json", 0), "entry.json is unreadable"),
    "half of entry.json": (lambda e: os.truncate(e / "entry.json", 50), "entry.json is unreadable"),
    "no entry.json": (lambda e: (e / "entry.json").unlink(), "unreadable"),
    "entry.json of another kind": (lambda e: (e / "entry.json").write_text("[]"), "entry.json is unreadable"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_entry_counts_as_absent_is_told_once_and_made_again(
    opened: Callable[[], Store], notes: list[str], what: str
) -> None:
    change, words = DAMAGE[what]
    entry = put(opened())
    change(entry.directory)
    looking = opened()
    assert looking.find(KEY) is None
    assert looking.find(KEY) is None
    assert len(notes) == 1
    assert words in notes[0]
    assert "its step runs again" in notes[0]
    put(looking)
    again = opened().find(KEY)
    assert again is not None
    assert (again.out / "tree/file").read_text() == "bytes"


@pytest.mark.parametrize("text", ["", "{", '"other"', "[1]", '{"x": [1, 2]}', "\0\0\0"])
def test_a_damaged_state_file_costs_a_hash_and_nothing_else(
    opened: Callable[[], Store], notes: list[str], text: str
) -> None:
    state = put(opened()).directory / "state.json"
    good = state.read_text()
    state.write_text(text)
    assert opened().find(KEY) is not None
    assert state.read_text() == good
    assert notes == []


def test_a_state_file_that_is_missing_is_written_again(opened: Callable[[], Store]) -> None:
    state = put(opened()).directory / "state.json"
    state.unlink()
    assert opened().entries()[0].used() == 0.0
    assert opened().find(KEY) is not None
    assert state.exists()


def test_damage_that_is_read_before_it_is_found_is_an_integrity_error(opened: Callable[[], Store]) -> None:
    entry = put(opened())
    _flip(entry.directory / "entry.json", 30)
    with pytest.raises(IntegrityError, match="is not what was stored") as caught:
        entry.digests()
    assert "run the build again" in (caught.value.hint or "")


def _killed_at(event: int, made: Store) -> bool:
    """Put the entry in a child that is killed at its ``event``-th operation; whether it got that far."""
    child = os.fork()
    if child == 0:
        count = 0

        def kill(name: str, _: tuple[object, ...]) -> None:
            nonlocal count
            if name.startswith(("os.", "fcntl.", "open", "shutil.", "tempfile.")):
                count += 1
                if count == event:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        put(made)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("damaged", [False, True], ids=["new", "replaced"])
def test_killed_between_any_two_operations_the_next_run_ends_the_same(
    opened: Callable[[], Store], tmp_path: Path, damaged: bool
) -> None:
    """Given a process killed at operation n, for 40 of all n, when it runs again the entry is whole."""
    reference = digest.of_tree(put(Store(tmp_path / "reference")).out)
    last = next(n for n in range(100, 1000, 20) if not _killed_at(n, Store(tmp_path / f"count{n}")))
    for event in sorted(random.Random(7).sample(range(1, last), 40)):
        if damaged:
            _flip(put(opened()).out / "tree/file")
        _killed_at(event, opened())
        found = opened().find(KEY)
        assert found is None or digest.of_tree(found.out) == reference
        del found
        assert digest.of_tree(put(opened()).out) == reference
        opened().sweep()
        assert os.listdir(tmp_path / "store/making") == []  # noqa: PTH208
        if not damaged:
            assert opened().remove(KEY)


def test_leftovers_of_the_dead_are_swept_and_those_of_the_living_are_not(opened: Callable[[], Store]) -> None:
    one, other = opened(), opened()
    with one.scratch(KEY) as living:
        dead = one.directory / "making" / f"{KEY[:16]}.dead"
        (dead / "entry").mkdir(parents=True)
        with other.scratch("cd" * 32):
            assert living.exists()
            assert not dead.exists()


PUT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from test_store import KEY, fill
from boardwright.build.store import Store
made = Store(Path(sys.argv[1]), note=lambda text: print(text, flush=True))
with made.locked(KEY):
    if made.find(KEY) is None:
        print("making", flush=True)
        with made.scratch(KEY) as scratch:
            fill(scratch)
            time.sleep(float(sys.argv[2]))
            made.commit(KEY, scratch, "a step", {{}})
    else:
        print("found", flush=True)
"""


def _putter(directory: Path, seconds: float) -> subprocess.Popen[str]:
    program = PUT.format(here=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", program, str(directory), str(seconds)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_two_processes_the_second_waits_says_for_whom_and_takes_what_the_first_made(
    tmp_path: Path,
) -> None:
    first = _putter(tmp_path / "store", 1.0)
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    second = _putter(tmp_path / "store", 0)
    said, _ = second.communicate(timeout=20)
    first.communicate(timeout=20)
    assert (
        said == f"waiting for process {first.pid} on {os.uname().nodename}, which makes {KEY[:12]}\nfound\n"
    )


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    first = _putter(tmp_path / "store", 1000)
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    first.kill()
    first.communicate()
    second = _putter(tmp_path / "store", 0)
    assert second.communicate(timeout=20)[0] == "making\n"


def test_an_entry_in_use_is_not_removed_and_one_let_go_is(opened: Callable[[], Store]) -> None:
    user = opened()
    put(user)
    assert not opened().remove(KEY)
    other = opened()
    assert other.find(KEY) is not None
    user.close()
    assert not opened().remove(KEY)
    other.close()
    assert opened().remove(KEY)
    assert opened().find(KEY) is None


def test_an_entry_being_made_is_not_removed(opened: Callable[[], Store]) -> None:
    put(opened())
    with opened().locked(KEY):
        assert not opened().remove(KEY)


def test_an_entry_is_not_found_while_it_is_removed(opened: Callable[[], Store]) -> None:
    entry = put(opened())
    held = os.open(entry.directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert opened().find(KEY) is None
    os.close(held)
    assert opened().find(KEY) is not None


def test_threads_that_find_the_same_entry_hold_one_lock(opened: Callable[[], Store]) -> None:
    put(opened())
    shared = opened()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    threads = [threading.Thread(target=shared.find, args=(KEY,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208


def test_waiting_ends_when_the_pause_says_so(opened: Callable[[], Store]) -> None:
    class Enough(Exception):
        pass

    def pause() -> None:
        raise Enough

    with opened().locked(KEY), pytest.raises(Enough), opened().locked(KEY, pause):
        pass


def test_least_recently_used_comes_first(opened: Callable[[], Store]) -> None:
    made = opened()
    keys = ["0" * 64, "1" * 64, "2" * 64]
    for number, key in enumerate(keys):
        put(made, key)
        os.utime(made.directory / key / "state.json", (number, number))
    made.touch(keys[0])
    assert [entry.key for entry in made.entries()] == [keys[1], keys[2], keys[0]]


def test_a_cache_that_is_a_file_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("in the way")
    with pytest.raises(HostError, match="cannot use") as caught:
        put(Store(tmp_path / "store"))
    assert "BOARDWRIGHT_CACHE" in (caught.value.hint or "")


def test_a_tree_that_a_step_closed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").touch()
    (tmp_path / "a/b").chmod(0o000)
    store.remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_forty_thousand_files_are_verified_in_little_time_and_memory(tmp_path: Path) -> None:
    """Measured by processor time, four times what a quiet slow core takes for a tenth of them."""
    made = Store(tmp_path / "store")
    with made.locked(KEY), made.scratch(KEY) as scratch:
        for number in range(40):
            directory = scratch / "out" / f"usr/share/{number}"
            directory.mkdir(parents=True)
            for name in range(100):
                (directory / f"a-name-of-the-usual-length-{name}").touch()
        made.commit(KEY, scratch, "root", {})
    since = time.process_time()
    assert Store(tmp_path / "store").find(KEY) is not None
    assert time.process_time() - since < 0.2


def test_the_notes_name_the_entry(bench: Bench) -> None:
    only = step("only", "echo made >/out/made")
    entry = bench.build(only)["only"]
    _flip(entry.out / "made")
    assert (bench.build(only)["only"].out / "made").read_text() == "made\n"
    key = plan_of(only)["only"].key
    assert [note for note in bench.notes if key[:12] in note] == [
        f"store entry {key[:12]} is damaged (made is not what was stored): its step runs again"
    ]
    wait_for(lambda: bench.left_over() == [], what="scratch to go")


def test_entry_json_is_one_object_a_script_can_read(opened: Callable[[], Store]) -> None:
    full = json.loads((put(opened()).directory / "entry.json").read_text())
    assert sorted(full) == ["digest", "files", "key", "record", "step"]
