"""Any layout to any other, with any room on the stick, cut anywhere, twice: the bytes are where they should
be."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from power import KEPT, LOST, MIXED, Fragile, PowerCut, ToolRefused
from world import MIB, SHIPPED, STICK_ROOT, Job, World, assert_holds, bootargs, environment, make_world, run

from boardwright.repartition import execute, parts, ubootenv
from boardwright.repartition.parts import Refused

FRONT = "128K(uboot),256K(env)"
SIZE = 8 * MIB
NAMES = ("a", "b", "c", "d")
ADVERSARIES = st.sampled_from([LOST, KEPT, MIXED])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes in KiB before and after; what is of unknown meaning never shrinks."""
    before = {name: 4 * draw(st.integers(1, 200)) for name in NAMES[: draw(st.integers(1, 4))]}
    after = {name: size + 4 * draw(st.sampled_from([0, 0, 1, 2, 30, 200])) for name, size in before.items()}
    if draw(st.booleans()):  # a partition in front that goes down in size lets the others move down
        first, size = "gap", 4 * draw(st.integers(1, 300))
        before, after = {first: size} | before, {first: 4 * draw(st.integers(1, 300))} | after
    return before, after


def text(sizes: dict[str, int]) -> str:
    return f"mmcblk0:{FRONT}," + ",".join(f"{size}K({name})" for name, size in sizes.items())


def raw_world(directory: Path, sizes: dict[str, int], seed: int) -> tuple[World, dict[str, bytes]]:
    chance = random.Random(seed)
    world = World(directory / "emmc", text(sizes))
    contents = {name: chance.randbytes(size * 1024) for name, size in sizes.items() if name != "gap"}
    with world.device.open("wb") as file:
        file.truncate(SIZE)
    with world.device.open("r+b") as file:
        for part in world.parts:
            file.seek(part.offset)
            if part.name == "env":
                file.write(ubootenv.make({"bootargs": bootargs(world.layout), "bootcmd": "x"}))
            elif part.name in contents:
                file.write(contents[part.name])
    return world, contents


def assert_contents(world: World, layout: str, contents: dict[str, bytes]) -> None:
    with world.device.open("rb") as file:
        for part in parts.parse(layout, "mmcblk0", SIZE):
            if part.name in contents:
                file.seek(part.offset)
                assert file.read(len(contents[part.name])) == contents[part.name], part.name


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(
    layouts(),
    st.sampled_from([0, 9 * MIB, 18 * MIB, 100 * MIB]),
    st.lists(st.floats(0, 1), max_size=2),
    ADVERSARIES,
    st.integers(0, 1000),
)
def test_bytes_get_where_they_should(
    sizes: tuple[dict[str, int], dict[str, int]], room: int, cuts: list[float], adversary: str, seed: int
) -> None:
    before, after = sizes
    with tempfile.TemporaryDirectory() as directory:
        world, contents = raw_world(Path(directory), before, seed)
        job = Job(text(after), room=room)
        start = world.device.read_bytes()
        fragile = Fragile(world.device, Path(directory) / "stick", None, LOST)
        try:
            made = run(fragile, job)
        except Refused as refused:
            event(refused.message[:20])
            assert world.device.read_bytes() == start
            return
        finally:
            fragile.close()
        for kind in {operation.kind for operation in made.operations}:
            event(kind)
        assert_contents(world, job.to, contents)

        world.device.write_bytes(start)
        for path in (Path(directory) / "stick").iterdir():
            path.unlink()
        for cut in cuts:
            again = Fragile(
                world.device, Path(directory) / "stick", int(cut * fragile.events), adversary, seed
            )
            try:
                finish(again, job)
            except PowerCut:
                pass
            finally:
                again.close()
            assert_state(world, job, contents)
        last = Fragile(world.device, Path(directory) / "stick", None, LOST)
        finish(last, job)
        last.close()
        assert_state(world, job, contents, done=True)


def finish(medium: Fragile, job: Job) -> None:
    """Begin or go on, unless the layout is there already and nothing is pending."""
    variables = _variables(medium)
    there = variables is not None and parts.of_bootargs(variables["bootargs"]) == job.to
    if not there or execute.pending(medium):
        run(medium, job)


def _variables(medium: Fragile) -> dict[str, str] | None:
    try:
        return ubootenv.read(medium.read(128 * 1024, ubootenv.SIZE))
    except Refused:
        return None


def assert_state(world: World, job: Job, contents: dict[str, bytes], *, done: bool = False) -> None:
    variables = environment(world)
    if variables is None:  # its rewriting was cut short, which no data was touched before
        assert not done
        assert_contents(world, world.layout, contents)
        return
    guarded = parts.root_of(variables["bootargs"]) == STICK_ROOT
    layout = parts.of_bootargs(variables["bootargs"])
    if not guarded:
        assert layout in (world.layout, job.to)
        assert_contents(world, layout, contents)
    if done:
        assert not guarded
        assert layout == job.to


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=12),
    st.integers(-300, 300).filter(bool),
    st.integers(1, 64), st.integers(1, 200),
)  # fmt: skip
def test_no_batch_of_a_move_is_written_over_its_own_source(
    raw: list[tuple[int, int]], by: int, chunk: int, batch: int
) -> None:
    from boardwright.repartition.ext4 import merged

    spans = merged((start, start + length) for start, length in raw)
    source = set(range(1000))
    copied: set[int] = set()
    for pieces in execute.batched(spans, by, batch, chunk):
        reads = {at for start, end in pieces for at in range(start, end)}
        writes = {at + by for at in reads}
        assert not reads & writes
        assert reads <= source, "a byte is read that a batch before has overwritten"
        source -= writes
        copied |= reads
    assert copied == {at for start, end in spans for at in range(start, end)}


ROOMS = st.sampled_from([0, 9 * MIB, 24 * MIB, 200 * MIB])
SIZES = st.tuples(st.integers(9, 22), st.integers(3, 8), st.integers(5, 10))


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(SIZES, ROOMS, st.floats(0, 1), ADVERSARIES, st.integers(1, 5))
def test_file_systems_get_where_they_should(
    sizes: tuple[int, int, int], room: int, cut: float, adversary: str, seed: int
) -> None:
    rootfs, soc, opt = sizes
    job = Job(f"{SHIPPED.split(',12M')[0]},{rootfs}M(rootfs),{soc}M(soc),{opt}M(opt)", room=room)
    with tempfile.TemporaryDirectory() as directory:
        world = make_world(Path(directory), SHIPPED, seed=seed)
        start = world.device.read_bytes()
        fragile = Fragile(world.device, Path(directory) / "stick", None, LOST)
        try:
            run(fragile, job)
        except Refused as refused:
            event(refused.message[:20])
            assert world.device.read_bytes() == start
            return
        except ToolRefused:  # resize2fs found less room than the planner: nothing was changed
            assert_holds(world, SHIPPED)
            return
        finally:
            fragile.close()
        assert_holds(world, job.to)
        world.device.write_bytes(start)
        for path in (Path(directory) / "stick").iterdir():
            path.unlink()
        again = Fragile(world.device, Path(directory) / "stick", int(cut * fragile.events), adversary, seed)
        try:
            finish(again, job)
        except PowerCut:
            pass
        finally:
            again.close()
        last = Fragile(world.device, Path(directory) / "stick", None, LOST)
        finish(last, job)
        last.close()
        assert_holds(world, job.to)
