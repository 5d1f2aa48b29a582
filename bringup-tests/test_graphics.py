"""Pictures: display, kmscube and glmark2 on the board's card. In an emulator they would measure the host."""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import display as displays
from boardwright.bringup.parsers import glmark2, kmscube, modetest
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.console.shell import with_silent_input
from boardwright.errors import HostError

FRAMES = 1200
"""20 s at 60 Hz, ten intervals of kmscube's reports."""
FLIP_SECONDS = 8
"""modetest reports its rate every 60 flips, and ends when its standard input has something to read."""
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
    if run.renders_only:
        pytest.skip(f"no display: {run.refused[0][0]} {run.refused[0][1]}")
    _judge(check, "modetest", run.errors)
    if not run.connected:
        pytest.skip("no monitor is connected")
    check.require(bool(names), "the monitor offers no mode", hint="is its EDID read? try another cable")


@pytest.mark.usefixtures("display")
def test_page_flips(console: Console, check: Check) -> None:
    """modetest sets the monitor's mode and flips pages at its rate"""
    board.need(console, "modetest", "package libdrm-tests")
    with_modes = [c for c in modetest.parse(console.run("modetest -c", 60).output).connected if c.modes]
    if not with_modes:
        pytest.skip("no monitor with modes is connected")
    connector = with_modes[0]
    size, hertz = connector.modes[0]
    feed = f"(sleep {FLIP_SECONDS}; echo)"
    done = console.run(f"{feed} | stdbuf -oL modetest -s {connector.number}:{size} -v", 60)
    run = modetest.parse(done.output)
    check.measure("mode", f"{run.mode[0]} {run.mode[1]:g} Hz" if run.mode else None, f"{size} {hertz:g} Hz")
    _judge(check, "modetest", run.errors)
    check.require(run.mode is not None, f"modetest set no mode: {done.line[-200:]}")
    check.require(bool(run.flips), f"modetest told no rate: {done.line[-200:]}")
    rate = check.rate("page flips", run.flips, "Hz", f"{hertz:g}")
    check.headline()
    check.require(
        abs(rate - hertz) < 0.05 * hertz, f"{rate:g} page flips a second, the mode has {hertz:g} Hz"
    )


@pytest.mark.usefixtures("display")
def test_kmscube(console: Console, check: Check) -> None:
    """kmscube renders on the card at the monitor's rate"""
    board.need(console, "kmscube")
    board.conditions(console, check)
    # Its output must not wait in a buffer that a bus error throws away.
    done = console.run(with_silent_input(f"stdbuf -oL kmscube -c {FRAMES}"), 180)
    run = kmscube.parse(done.output)
    check.measure("renderer", run.renderer or None)
    check.headline()
    check.rests_on(*(line for line in done.output.splitlines() if "renderer:" in line or "Bus error" in line))
    died = run.died or ("Bus error" if done.status == 135 else "")
    check.require(not died, f"kmscube died: {died}", hint=_BUS_ERROR if died == "Bus error" else None)
    _judge(check, "kmscube", run.errors)
    if run.interrupted:
        raise HostError("kmscube took its standard input for a key and stopped: it proves nothing")
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
    if run.score is None:
        _judge_display("glmark2", run.errors)
    why = "".join(f": {error}" for error in run.errors[:1])
    check.require(
        run.score is not None, f"no score: glmark2 broke off{where}{why}", hint=_BUS_ERROR if died else None
    )
    wrong = [f"{scene.title}: {scene.told}" for scene in run.scenes if scene.failed]
    check.require(not wrong, "; ".join(wrong[:4]))
    check.require(not run.is_software, f"the CPU rendered: {run.renderer}")
    if run.capped:
        against.append("no swap interval could be set, so no scene is faster than the monitor")
        check.measure("speaks against the rates", against[-1])
    if "verde" in run.renderer.lower() and not against:  # the card of the reference
        outside, compared = glmark2.compare(run)
        slow = [f"{d.title}: {d.rate} of {d.low:g} fps" for d in outside if d.ratio < 1]
        check.measure("scenes near the reference", compared - len(slow), compared)
        check.require(not slow, f"slower than the reference by more than 30 %: {'; '.join(slow[:4])}")


def _judge(check: Check, program: str, errors: tuple[str, ...]) -> None:
    _judge_display(program, errors)
    check.require(not errors, f"{program}: {'; '.join(errors[:3])}")


def _judge_display(program: str, errors: tuple[str, ...]) -> None:
    """Without a monitor there is nothing to look at; a display that another program holds is the lab's."""
    if displays.no_monitor(errors):
        pytest.skip("no monitor is connected")
    if displays.held(errors):
        raise HostError(
            f"another program holds the display: {program}: {errors[0]}",
            hint="stop the desktop, or the kmscube or glmark2 that was left running",
        )
