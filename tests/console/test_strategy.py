"""From power-on to a shell as asked for, in one budget; and the kernel says what bootargs it was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_faults import SCRIPTS, Case, after_kernel, loader

from boardwright.console import bootscript
from boardwright.console.cable import BadCable, Faults
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed, ConsoleError, ConsoleSilent
from boardwright.console.patterns import Stage
from boardwright.console.simulator import BoardPort, ScriptedBoard
from boardwright.console.strategy import Strategy, to_shell
from boardwright.errors import ExitStatus

ROCK = next(path for path in SCRIPTS if path.stem == "rock5b")
ARGS = "root=/dev/mmcblk1p2 rw init=/bin/sh"
BY_HAND = ("load mmc 1:1 ${kernel_addr_r} /Image",)


class Bench:
    """A board with a power switch, behind a cable."""

    def __init__(self, case: Case) -> None:
        self.board = ScriptedBoard(case.change(bootscript.load(ROCK)))
        self.port = BoardPort(self.board)
        self.cycles = 0
        cable = BadCable(self.port, case.cable, 1, self.port.clock)
        self.console = Console(cable, clock=self.port.clock, silence=case.silence)

    def cycle(self) -> None:
        self.cycles += 1
        self.board.power_cycle(self.port.now)


def bench(cable: Faults | None = None, **change: object) -> Bench:
    return Bench(Case(change=loader(**change), cable=cable or Faults()))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_kernel_is_given_the_bootargs_for_this_boot(script: Path) -> None:
    port = BoardPort(ScriptedBoard(bootscript.load(script)))
    with Console(port, clock=port.clock, password=bootscript.load(script).password) as console:
        report = to_shell(console, 300, Strategy(bootargs=ARGS))
        assert console.stage is Stage.SHELL
        assert {"u-boot", "kernel"} <= set(report.milestones)
        assert console.run("cat /proc/cmdline").line == ARGS


def test_a_boot_script_that_sets_its_own_is_found_out_and_commands_go_past_it() -> None:
    own = bench(append="root=PARTUUID=1-2 quiet")
    with pytest.raises(BoardFailed, match="was not given 'root=/dev/mmcblk1p2 rw init=/bin/sh'") as caught:
        to_shell(own.console, 300, Strategy(bootargs=ARGS))
    assert caught.value.state == "bootargs not taken"
    assert "quiet" in caught.value.message
    by_hand = bench(append="root=PARTUUID=1-2 quiet", known={BY_HAND[0]: "31 bytes read in 2 ms\n"})
    strategy = Strategy(commands=BY_HAND, bootargs=ARGS, boot="booti ${kernel_addr_r} - ${fdt_addr_r}")
    to_shell(by_hand.console, 300, strategy)
    assert by_hand.console.run("cat /proc/cmdline").line == ARGS


def test_the_board_is_switched_on_first_and_a_command_that_fails_ends_it() -> None:
    target = bench(failing={BY_HAND[0]: "** Bad device\n"})
    with pytest.raises(BoardFailed, match="Bad device") as caught:
        to_shell(target.console, 300, Strategy(commands=BY_HAND), target.cycle)
    assert caught.value.state == "loader command failed"
    assert target.cycles == 1


def test_a_board_that_is_up_is_switched_and_its_start_is_no_reset() -> None:
    target = bench()
    to_shell(target.console, 300, Strategy(), target.cycle)
    target.console.watch.stage = Stage.OFF
    report = to_shell(target.console, 300, Strategy(bootargs=ARGS), target.cycle)
    assert report.findings == ()
    assert target.cycles == 2


def test_all_stages_share_one_budget() -> None:
    target = bench(seconds=20, stop="sesame")
    with pytest.raises(BoardFailed) as caught:
        to_shell(target.console, 12, Strategy(bootargs=ARGS))
    assert caught.value.state == "autoboot not stopped"
    assert target.console.channel.seconds < 14
    late = bench()  # the loader takes some seconds of the twelve, the kernel needs ten
    with pytest.raises(ConsoleError, match="no shell within the budget"):
        to_shell(late.console, 12, Strategy(bootargs=ARGS))
    assert late.console.channel.seconds < 14


def test_a_line_that_broke_and_a_board_that_stopped_are_told_apart_by_one_power_cycle() -> None:
    stopped = Bench(Case(change=after_kernel("[    2.0] random: crng init done")))
    with pytest.raises(BoardFailed, match="after a power cycle the board spoke again") as board:
        to_shell(stopped.console, 900, Strategy(tell_apart=True), stopped.cycle)
    assert board.value.state == "silent after kernel"
    broken = bench(Faults(cut_after=900))
    with pytest.raises(ConsoleSilent, match="after a power cycle not one byte") as line:
        to_shell(broken.console, 900, Strategy(tell_apart=True), broken.cycle)
    assert (line.value.state, line.value.exit_status) == ("off", ExitStatus.HOST)
    assert (stopped.cycles, broken.cycles) == (2, 2)


def test_without_the_power_cycle_both_are_silent_and_no_switch_is_refused() -> None:
    broken = bench(Faults(cut_after=900))
    with pytest.raises(BoardFailed) as caught:
        to_shell(broken.console, 900, Strategy(), broken.cycle)
    assert caught.value.state.startswith("silent after")
    assert broken.cycles == 1
    with pytest.raises(ValueError, match="takes a power switch"):
        to_shell(broken.console, 900, Strategy(tell_apart=True))
