"""Pictures: display, kmscube and glmark2 on the board's card. In an emulator they would measure the host."""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import glmark2, kmscube, modetest
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.console.shell import with_silent_input

FRAMES = 1200
"""20 s at 60 Hz, ten intervals of kmscube's reports."""
_EMULATED = "an emulated card executes no commands, its pictures are the host's work"
_BUS_ERROR = "Mesa touched card memory with an unaligned access: invoke align-hunt, docs/align-hunt.md"


@pytest.fixture
def display(console: Console, bench_: Bench) -> None:
    """A KMS device of real hardware."""
    if console.run("ls /dev/dri/card*").status != 0:
        pytest.skip("no display device")
    board.need_hardware(bench_, _EMULATED)


@pytest.mark.usefixtures("display")
def test_modetest(console: Console, check: Check) -> None:
    """a connector has a monitor with modes"""
    board.need(console, "modetest", "package libdrm-tests")
    run = modetest.parse(console.run("modetest -c", 60).output)
    names = [f"{c.name} {c.modes[0][0]}" for c in run.connected if c.modes]
    check.measure("connected", " ".join(names) or "none", "one at least")
    check.measure("driver", run.driver or None)
    if not run.connected:
        pytest.skip("no monitor is connected")
    check.require(not run.errors, "; ".join(run.errors[:3]))
    check.require(bool(names), "the monitor offers no mode", hint="is its EDID read? try another cable")


@pytest.mark.usefixtures("display")
def test_kmscube(console: Console, check: Check) -> None:
    """kmscube renders on the card at the monitor's rate"""
    board.need(console, "kmscube")
    board.conditions(console, check)
    # Its output must not wait in a buffer that a bus error throws away.
    done = console.run(with_silent_input(f"stdbuf -oL kmscube -c {FRAMES}"), 180)
    run = kmscube.parse(done.output)
    check.measure("renderer", run.renderer or None)
    check.rests_on(*(line for line in done.output.splitlines() if "renderer:" in line or "Bus error" in line))
    died = run.died or ("Bus error" if done.status == 135 else "")
    check.require(not died, f"kmscube died: {died}", hint=_BUS_ERROR if died == "Bus error" else None)
    check.require(not run.errors, "; ".join(run.errors[:3]))
    assert not run.interrupted, "kmscube took its standard input for a key and stopped"
    check.require(run.frames > 0, f"kmscube rendered nothing: {done.line[-200:]}")
    rate = check.rate("frames", run.rates, "fps")
    check.headline()
    check.require(not run.is_software, f"the CPU rendered: {run.renderer}", hint="are the rings all right?")
    stutters = [value for value in run.rates if value < 0.8 * rate]
    check.require(
        not stutters, f"{len(stutters)} of {len(run.rates)} intervals were slower than 80 % of {rate:.1f} fps"
    )


@pytest.mark.usefixtures("display")
def test_glmark2(console: Console, check: Check) -> None:
    """glmark2 runs to its score, each scene near the reference"""
    board.need(console, "glmark2-es2-drm", "package glmark2-es2-drm")
    against = board.conditions(console, check)
    done = console.run(with_silent_input("stdbuf -oL glmark2-es2-drm"), 900)
    run = glmark2.parse(done.output)
    for scene in run.scenes:
        if scene.rate is not None:
            check.rate(scene.title, [float(scene.rate)], "fps")
    if run.score is not None:
        check.rate("score", [float(run.score)], "points", glmark2.REFERENCE_SCORE)
        check.headline()
    check.rests_on(*(scene.line for scene in run.scenes if scene.rate is None))
    died = "Bus error" in run.errors or done.status == 135
    where = f" in scene {run.stopped_in.title}" if run.stopped_in else ""
    check.require(
        run.score is not None, f"no score: glmark2 broke off{where}", hint=_BUS_ERROR if died else None
    )
    check.require(not run.is_software, f"the CPU rendered: {run.renderer}")
    if "verde" in run.renderer.lower() and not against:  # the card of the reference
        outside, compared = glmark2.compare(run)
        slow = [f"{d.title}: {d.rate} of {d.low:g} fps" for d in outside if d.ratio < 1]
        check.measure("scenes near the reference", compared - len(slow), compared)
        check.require(not slow, f"slower than the reference by more than 30 %: {'; '.join(slow[:4])}")
