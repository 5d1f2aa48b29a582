"""``out/<board>/``: whole files, sparse ones stay so, and whoever touches one is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

import pytest
from builds import Bench, plan_of, step

from boardwright.build import publish
from boardwright.build.plan import Plan
from boardwright.build.publish import Artifact, copy, data_ranges, is_current
from boardwright.build.step import Text
from boardwright.build.store import Entry
from boardwright.errors import HostError, IntegrityError

ARTIFACTS = [Artifact("board.img", "image", "disk"), Artifact("kernel.config", "image", "config")]
SCRIPT = """
truncate -s 8M /out/disk
echo start | dd of=/out/disk conv=notrunc 2>/dev/null
echo end | dd of=/out/disk bs=1M seek=7 conv=notrunc 2>/dev/null
echo CONFIG >/out/config
"""
IMAGE = step("image", SCRIPT, "disk", "config")

Built = tuple[Plan, dict[str, Entry], Path]


@pytest.fixture
def built(bench: Bench, tmp_path: Path) -> Built:
    return plan_of(IMAGE), bench.build(IMAGE), tmp_path / "out" / "board"


def _publish(built: Built) -> Path:
    plan, entries, out = built
    publish.publish(plan, entries, ARTIFACTS, {"manifest": 1}, out)
    return out


def test_what_is_published_is_what_the_sums_and_the_manifest_say(built: Built) -> None:
    out = _publish(built)
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    manifest = json.loads((out / "manifest.json").read_text())
    assert sorted(manifest["artifacts"]) == ["board.img", "kernel.config"]
    assert {p.name for p in out.iterdir()} == {
        *("board.img", "kernel.config", "SHA256SUMS", "manifest.json", publish.STATE)
    }


@pytest.mark.parametrize("where", ["same file system", "another"])
def test_holes_stay_holes(tmp_path: Path, area: Path, where: str) -> None:
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(64 << 20)
        for position in (0, 20 << 20, (64 << 20) - 4096):
            file.seek(position)
            file.write(b"data" * 1024)
    target = (tmp_path if where == "same file system" else area) / "target"
    copy(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 < 2 << 20


@pytest.mark.parametrize("size", [0, 1, 4095, 4097, 3_000_001])
def test_files_of_any_length_are_copied_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "source").write_bytes(random.Random(size).randbytes(size))
    copy(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_file_of_one_hole_has_no_data(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 20)
    with (tmp_path / "hole").open("rb") as file:
        assert data_ranges(file.fileno(), 1 << 20) == []


def test_published_is_current_until_something_is_touched(built: Built) -> None:
    plan, _, out = built
    assert not is_current(plan, ARTIFACTS, out)
    _publish(built)
    assert is_current(plan, ARTIFACTS, out)


CHANGES = {
    "changed artifact": lambda out: (out / "kernel.config").write_text("CHANGED"),
    "deleted artifact": lambda out: (out / "board.img").unlink(),
    "touched artifact": lambda out: os.utime(out / "board.img"),
    "replaced artifact": lambda out: (
        (out / "x").write_text("CONFIG\n"),
        (out / "x").rename(out / "kernel.config"),
    ),
    "deleted sums": lambda out: (out / "SHA256SUMS").unlink(),
    "changed manifest": lambda out: (out / "manifest.json").write_text("{}"),
    "deleted state": lambda out: (out / publish.STATE).unlink(),
    "broken state": lambda out: (out / publish.STATE).write_text("{"),
    "other state": lambda out: (out / publish.STATE).write_text("[]"),
    "empty state": lambda out: (out / publish.STATE).write_text("{}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whoever_touches_a_published_file_is_noticed(built: Built, change: str) -> None:
    plan, _, out = built
    CHANGES[change](_publish(built))
    assert not is_current(plan, ARTIFACTS, out)
    _publish(built)
    assert is_current(plan, ARTIFACTS, out)


def test_another_plan_or_another_list_of_artifacts_is_not_current(built: Built) -> None:
    plan, _, out = built
    _publish(built)
    assert not is_current(plan_of(step("image", "another")), ARTIFACTS, out)
    assert not is_current(plan, [*ARTIFACTS, Artifact("more", "image", "config")], out)
    assert not is_current(plan, ARTIFACTS[:1], out)


def test_killed_at_any_operation_no_half_file_stands_under_its_name(built: Built) -> None:
    """Given an earlier image: each file is the old or the new one, and the state vouches for no mixture."""
    plan, entries, out = built
    old = {"board.img": b"old image", "kernel.config": b"old config"}
    _publish(built)
    new = {name: (out / name).read_bytes() for name in old}
    for event in range(1, 60, 2):
        for name, content in old.items():
            (out / name).write_bytes(content)
        child = os.fork()
        if child == 0:
            count = 0

            def kill(name: str, _: tuple[object, ...], last: int = event) -> None:
                nonlocal count
                count += name.startswith(("os.", "open", "fcntl."))
                if count == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            publish.publish(plan, entries, ARTIFACTS, {}, out)
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        found = {name: (out / name).read_bytes() for name in old}
        assert all(found[name] in (old[name], new[name]) for name in old)
        if is_current(plan, ARTIFACTS, out):
            assert found == new
        if not killed:
            break
    else:
        pytest.fail("publishing has more operations than were tried")
    _publish(built)
    assert not [path.name for path in out.iterdir() if path.name.endswith(".new")]


def test_two_that_publish_at_once_do_so_one_after_the_other(built: Built) -> None:
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                _publish(built)
        except BaseException as error:  # the main thread reports it
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert is_current(built[0], ARTIFACTS, built[2])


def test_a_damaged_description_is_not_published(built: Built) -> None:
    (built[1]["image"].directory / "entry.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"entry\.json is unreadable"):
        _publish(built)


def test_a_place_that_cannot_be_written_is_a_host_error(built: Built) -> None:
    built[2].parent.write_text("in the way")
    with pytest.raises(HostError, match="cannot use"):
        _publish(built)


def test_the_manifest_names_steps_keys_records_and_outputs(built: Built, tmp_path: Path) -> None:
    plan, entries, _ = built
    told = publish.describe(plan, entries, {"board": "b"}, tmp_path)
    assert told["board"] == "b"
    assert told["steps"]["image"]["key"] == plan["image"].key
    assert told["steps"]["image"]["needs"] == ["tools"]
    assert sorted(told["outputs"]["image"]) == ["config", "disk"]
    assert told["tool"]["revision"] == "unknown"
    json.dumps(told)


def test_a_text_input_needs_no_entry_of_inputs(bench: Bench, tmp_path: Path) -> None:
    only = step("only", "cp /in/t /out/made", inputs={"t": Text("x")})
    told = publish.describe(plan_of(only), bench.build(only), {}, tmp_path)
    assert "only" not in told["inputs"]
