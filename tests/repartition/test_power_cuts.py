"""Power goes at every single event of a run, and whatever was not synced is lost, torn or mixed; then it
goes on.

The host's mke2fs, debugfs and e2fsck make and judge the file systems.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from power import KEPT, LOST, MIXED, Fragile, PowerCut
from world import (
    ENVIRONMENT,
    FRONT,
    MIB,
    SHIPPED,
    STICK_ROOT,
    Job,
    World,
    assert_holds,
    environment,
    live,
    make_world,
    run,
)

from boardwright.repartition import execute, parts

GROWN = f"mmcblk0:{FRONT},20M(rootfs),4M(soc),8M(opt)"
JOBS = {
    # Everything over the stick: copies, resized, checked, put back.
    "stick": Job(GROWN),
    # No room on the stick: opt and soc move in place, rootfs is grown later by the board itself.
    "in-place": Job(GROWN, room=9 * MIB),
    # Moves that overlap themselves, downwards; what is shrunk goes over the stick.
    "overlap-down": Job(f"mmcblk0:{FRONT},9M(rootfs),4M(soc),8M(opt)", room=20 * MIB),
    # Upwards by less than a batch, the last one first.
    "overlap-up": Job(f"mmcblk0:{FRONT},13M(rootfs),4M(soc),8M(opt)", room=9 * MIB),
    "new-partition": Job(f"mmcblk0:{FRONT},12M(rootfs),4M(soc),6M(opt),4M(extra)", format=("extra",)),
    "delete": Job(f"mmcblk0:{FRONT},20M(rootfs),4M(soc)", delete=("opt",)),
}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), SHIPPED)


def copied(world: World, directory: Path) -> World:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shutil.copy(world.device, directory / "emmc")
    return World(directory / "emmc", world.layout, dict(world.files), world.noise)


def assert_as_planned(world: World, job: Job) -> None:
    variables = environment(world)
    assert variables is not None
    assert parts.of_bootargs(variables["bootargs"]) == job.to
    assert parts.root_of(variables["bootargs"]) == job.root
    assert {name: value for name, value in variables.items() if name != "bootargs"} == {
        "baudrate": "115200", "bootcmd": "axera_boot", "ethaddr": "02:00:00:00:00:01",
    }  # fmt: skip
    assert_holds(world, job.to, empty=job.format)


def cut_and_resume(shipped: World, job: Job, directory: Path, fuse: int, adversary: str) -> str:
    """Cut the power once; judge what a start would find; go on, judge the end. The kind of state that was
    met."""
    world = copied(shipped, directory / "work")
    fragile = Fragile(world.device, directory / "work/stick", fuse, adversary)
    with pytest.raises(PowerCut):
        run(fragile, job)
    fragile.close()
    variables = environment(world)
    state = "torn"
    if variables is not None:
        root, layout = parts.root_of(variables["bootargs"]), parts.of_bootargs(variables["bootargs"])
        state = "guard" if root == STICK_ROOT else "old" if layout == SHIPPED else "new"
    if state == "new":
        assert_as_planned(world, job)
    if state in ("old", "torn"):  # no data was touched, whatever the environment
        assert_holds(world, SHIPPED)
    if state == "torn":
        assert fragile.log[-1] in (f"write {ENVIRONMENT} {128 * 1024}", "sync") or fragile.log[-1].startswith(
            "write "
        )
    if state == "old" and fuse % 2:  # the board runs in between, and what it writes must not be lost
        for name in ("soc", "rootfs"):
            live(world, name)
    again = Fragile(world.device, directory / "work/stick", None, LOST)
    if state != "new" or execute.pending(again):
        run(again, job)
    again.close()
    assert_as_planned(world, job)
    return state


def events_of(shipped: World, job: Job, directory: Path) -> int:
    world = copied(shipped, directory / "whole")
    fragile = Fragile(world.device, directory / "whole/stick", None, LOST)
    plan = run(fragile, job)
    fragile.close()
    assert_as_planned(world, job)
    assert plan.operations
    return fragile.events


def test_power_is_cut_at_every_event_of_moves_in_place(shipped: World, tmp_path: Path) -> None:
    job = JOBS["in-place"]
    events = events_of(shipped, job, tmp_path)
    states = {cut_and_resume(shipped, job, tmp_path, fuse, MIXED) for fuse in range(events)}
    assert states >= {"old", "guard", "new"}


@pytest.mark.slow
@pytest.mark.parametrize("adversary", [LOST, KEPT, MIXED])
@pytest.mark.parametrize("name", JOBS)
def test_power_is_cut_at_every_event(shipped: World, name: str, adversary: str, tmp_path: Path) -> None:
    job = JOBS[name]
    events = events_of(shipped, job, tmp_path)
    states = {cut_and_resume(shipped, job, tmp_path, fuse, adversary) for fuse in range(events)}
    print(f"{name}, {adversary}: {events} events, states {sorted(states)}")
    assert states >= {"old", "guard", "new"}
