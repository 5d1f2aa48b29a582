"""A build under fault: killed, short of room, without rights, in company. The next one ends the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import builds
import invoke
import pytest
from builds import ROOT, Bench, chain, plan_of, processes_of, step, wait_for

import boardwright
from boardwright.build import executor, plan
from boardwright.build.collect import collect
from boardwright.build.publish import Artifact, publish
from boardwright.build.store import Store
from boardwright.errors import BoardwrightError, HostError, ProductError

AS_ROOT = os.geteuid() == 0
NOBODY = 65534

SCRIPTS = {
    "one": "for i in 1 2 3 4 5; do echo one $i; sleep 0.02; done >/out/made",
    "two": "{ cat /in/before; sleep 0.1; echo two; } >/out/made",
    "three": "mkdir /out/made; for i in $(seq 100); do cat /in/before >/out/made/$i; done",
    "four": "cat /in/before/* | sha256sum >/out/made",
}


def _digests(said: str) -> dict[str, dict[str, str]]:
    return {line.split(" ", 1)[0]: json.loads(line.split(" ", 1)[1]) for line in said.splitlines()}


def _built(bench: Bench) -> dict[str, dict[str, str]]:
    done = subprocess.run(bench.child(*chain(SCRIPTS)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return _digests(done.stdout)


def _forget(bench: Bench) -> None:
    """Remove what the last round made, but for the root."""
    root = plan.make([ROOT], ["tools"])["tools"].key
    for entry in bench.store.entries():
        assert entry.key == root or bench.store.remove(entry.key)


def test_killed_at_ten_random_moments_the_next_build_ends_the_same(bench: Bench) -> None:
    """Given a build that dies at once at a random moment, then another: the same bytes, nothing left."""
    steps = chain(SCRIPTS)
    since = time.monotonic()
    reference = {name: entry.digests() for name, entry in bench.build(*steps).items()}
    whole = time.monotonic() - since
    moments = random.Random(11)
    for _ in range(10):
        _forget(bench)
        child = os.fork()
        if child == 0:
            bench.build(*steps)
            os._exit(0)
        time.sleep(moments.uniform(0, whole))  # the random moment itself
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert {name: entry.digests() for name, entry in bench.build(*steps).items()} == reference
    wait_for(lambda: not processes_of(bench.cache), what="the sandboxes of the killed to end")
    bench.store.sweep()
    assert bench.left_over() == []


def test_two_builds_at_once_make_each_step_once_and_agree(bench: Bench) -> None:
    scripts = {name: f"sleep 0.3; {script}; echo {name} ran" for name, script in SCRIPTS.items()}
    children = [
        subprocess.Popen(
            bench.child(*chain(scripts)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    assert _digests(answers[0][0]) == _digests(answers[1][0])
    assert sum(said.count("done in") for _, said in answers) == len(SCRIPTS)
    assert "waiting for process" in answers[0][1] + answers[1][1]


def test_entries_a_build_uses_survive_a_collection_that_wants_everything(bench: Bench) -> None:
    steps = chain({"early": "echo early >/out/made", "late": "sleep 1.5; cat /in/before >/out/made"})
    child = subprocess.Popen(bench.child(*steps), stdout=subprocess.PIPE, text=True)
    making = bench.cache / "store/making"
    wait_for(lambda: list(making.glob("late*")) or len(bench.store.entries()) == 2, what="the second step")
    removed = collect(bench.cache, bench.store, 0)
    assert child.communicate(timeout=30)[0].startswith("early")
    assert child.returncode == 0
    assert {row.name for row in removed} & {"tools", "early", "downloads"} == set()
    assert {row.name for row in collect(bench.cache, bench.store, 0)} >= {"tools", "early", "late"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    if not AS_ROOT:
        pytest.skip("only root may mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "small", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this container may not mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def small(small_disk: Path, tiny_root: Path) -> Bench:
    bench = Bench(small_disk / "cache")
    bench.put_root(tiny_root)
    return bench


def _filled(directory: Path, left: int) -> Path:
    """Fill a disk but for ``left`` bytes."""
    ballast = directory / "ballast"
    free = shutil.disk_usage(directory).free
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free - left))
    return ballast


def _expect_full(build: Callable[[], object]) -> HostError:
    with pytest.raises(HostError) as caught:
        build()
    assert caught.value.exit_status == 3
    assert "full" in f"{caught.value.message} {caught.value.hint}"
    return caught.value


FULL = {
    "before anything": ("echo >/out/made", 0),
    "while the step writes": ("head -c 3000000 /dev/zero >/out/made", 1 << 20),
    "while the log is written": ("seq 300000; echo >/out/made", 1 << 20),
    "at the commit": (
        "echo >/out/made; mkdir /out/d; for i in $(seq 300); do echo >/out/d/$i; done\n"
        "head -c 99999999 /dev/zero >/out/fill 2>/dev/null || truncate -s -4096 /out/fill",
        3 << 20,
    ),
}


@pytest.mark.parametrize("when", FULL)
def test_a_full_disk_is_told_is_not_remembered_and_is_over_once_there_is_room(
    small: Bench, when: str
) -> None:
    script, left = FULL[when]
    only = step("only", script)
    ballast = _filled(small.cache.parent, left)
    _expect_full(lambda: small.build(only))
    assert small.store.find(plan_of(only)["only"].key) is None
    ballast.unlink()
    small.store.sweep()
    assert small.left_over() == []
    if when != "at the commit":
        assert (small.build(only)["only"].out / "made").exists()


def test_a_full_disk_while_publishing_leaves_no_half_file(bench: Bench, small_disk: Path) -> None:
    only = step("only", "head -c 3000000 /dev/urandom >/out/made")
    entries = bench.build(only)
    out = small_disk / "out"
    out.mkdir()
    (out / "board.img").write_text("earlier")
    ballast = _filled(small_disk, 1 << 20)
    artifacts = [Artifact("board.img", "only", "made")]
    _expect_full(lambda: publish(plan_of(only), entries, artifacts, {}, out))
    assert [path.name for path in out.iterdir()] == ["board.img"]
    assert (out / "board.img").read_text() == "earlier"
    ballast.unlink()
    publish(plan_of(only), entries, artifacts, {}, out)
    assert (out / "board.img").stat().st_size == 3_000_000


def test_a_cache_on_a_read_only_disk_is_a_host_error_and_what_it_holds_can_be_used(
    small: Bench, small_disk: Path
) -> None:
    only = step("only", "echo made >/out/made")
    small.build(only)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert (small.build(only)["only"].out / "made").read_text() == "made\n"
    with pytest.raises(HostError, match=r"cannot use .*[Rr]ead-only file system"):
        small.build(step("other", "echo >/out/made"))


AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def _python_of_nobody() -> str:
    new = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run(
            [*AS_NOBODY, "env", python, "-c", new], capture_output=True, check=False
        ).returncode:
            return python
    pytest.skip("no Python 3.11 that an ordinary user may run")


@pytest.fixture
def open_area(tiny_root: Path) -> Iterator[Bench]:
    """A cache, and a copy of the project, in a place that an ordinary user can reach."""
    if not AS_ROOT or shutil.which("setpriv") is None:
        pytest.skip("only root may become somebody else")
    python = _python_of_nobody()
    area = Path("/var/tmp") / f"boardwright-test.{os.getpid()}"
    area.mkdir(mode=0o755)
    for package in (boardwright, invoke):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, area / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for described in Path(str(invoke.__file__)).parent.parent.glob("invoke-*.dist-info"):
        shutil.copytree(described, area / described.name)
    shutil.copy(builds.__file__, area)
    (area / "boardwright").chmod(0o755)
    bench = Bench(
        area / "cache", program=("env", f"PYTHONPATH={area}", f"HOME={area}", python, str(area / "builds.py"))
    )
    bench.put_root(tiny_root)
    yield bench
    shutil.rmtree(area)


def _given_to_nobody(bench: Bench) -> None:
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(bench.cache.parent)], check=True)


def test_an_ordinary_user_builds_the_same_as_root(open_area: Bench) -> None:
    reference = _built(open_area)
    _forget(open_area)
    _given_to_nobody(open_area)
    command = open_area.child(*chain(SCRIPTS), prefix=AS_NOBODY)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _digests(done.stdout) == reference


def test_a_store_of_somebody_else_is_a_host_error(open_area: Bench) -> None:
    _given_to_nobody(open_area)
    key = plan.make([ROOT], ["tools"])["tools"].key
    (open_area.cache / "store" / key).chmod(0o000)
    command = open_area.child(step("only", "echo >/out/made"), prefix=AS_NOBODY)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "cannot use" in done.stderr
    assert "Permission denied" in done.stderr
    assert "internal fault" not in done.stderr


def test_an_error_of_a_step_is_the_same_for_every_user(bench: Bench) -> None:
    """A step may change no owner, whoever runs the build."""
    with pytest.raises(ProductError) as caught:
        bench.build(step("only", "touch x; chown 1:1 x; cp x /out/made"))
    assert "chown" in caught.value.message


def test_a_target_that_vanishes_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    only = step("only", "echo >/out/made")
    monkeypatch.setattr(executor, "_run_all", lambda *_: None)
    with pytest.raises(BoardwrightError, match="entry of step only is gone"):
        executor.build(plan_of(only), bench.builder(store=Store(bench.cache / "store")))
