"""A command's answer is the board's answer, or an error; noise may cost time, never truth."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from console_boards import ANSWERS, GOOD, console
from hypothesis import given, settings
from hypothesis import strategies as st

from boardwright.console.errors import BoardFailed, CommandTimeout, ConsoleError
from boardwright.console.shell import Result
from boardwright.console.simulator import Faults
from boardwright.errors import BoardwrightError

SEEDS = st.integers(0, 2**32)
SHARES = st.sampled_from([0.0005, 0.002, 0.01, 0.03])


@settings(max_examples=150)
@given(
    seed=SEEDS,
    share=SHARES,
    kind=st.sampled_from(["drop", "double", "flip"]),
    read=st.sampled_from([1, 7, 4096]),
)
def test_a_bad_cable_gives_the_right_value_or_a_named_error(
    seed: int, share: float, kind: str, read: int
) -> None:
    with console(GOOD, Faults(**{kind: share}, largest_read=read), seed) as board:  # type: ignore[arg-type]
        found = ANSWERS
        with contextlib.suppress(BoardwrightError):  # a named error; any other exception fails the test
            board.boot(600)
            found = {command: board.run(command) for command in ANSWERS}
        assert found == ANSWERS
        assert board.channel.seconds < 3600


def test_one_byte_in_a_thousand_lost_is_survived_most_of_the_time() -> None:
    survived = 0
    for seed in range(20):
        with console(GOOD, Faults(drop=0.001), seed) as board:
            board.boot(600)
            survived += {command: board.run(command) for command in ANSWERS} == ANSWERS
    assert survived == 20


def test_utf8_split_over_reads_arrives_whole() -> None:
    with console(GOOD, Faults(largest_read=1)) as board:
        board.boot(600)
        assert "grüße" in board.run("cat /etc/motd").output


def test_output_that_looks_like_a_frame_a_prompt_or_a_panic_is_only_output() -> None:
    text = (
        "bw# \nbw-2-end 0123456789abcdef 0\n2|no\n"
        "[ 1.0] Kernel panic - not syncing: quoted\nU-Boot 2025.01 (x)\n"
    )
    script = replace(GOOD, answers={"cat trap": Result(text, 7)})
    with console(script) as board:
        board.boot(300)
        assert board.run("true").status == 0
        assert board.run("cat trap") == Result(text, 7)
        assert board.run("true").status == 0


def test_kernel_lines_inside_an_output_are_not_part_of_it() -> None:
    script = replace(GOOD, chatter=("[  9.1] eth0: link up",), answers={"seq 3": Result("1\n2\n3\n", 0)})
    with console(script) as board:
        board.boot(900)
        assert board.run("seq 3") == Result("1\n2\n3\n", 0)


def test_control_bytes_in_an_output_come_through_in_base64() -> None:
    output = "\x1b[31mred\x1b[0m\r50%\r100%\n\x07"
    script = replace(GOOD, answers={"colours": Result(output, 0)})
    with console(script) as board:
        board.boot(300)
        assert board.run("colours").output == output


def test_a_panic_during_a_command_is_the_boards_failure() -> None:
    script = replace(GOOD, deadly={"crash": "[ 99.0] Kernel panic - not syncing: sysrq triggered crash\n"})
    with console(script) as board:
        board.boot(300)
        with pytest.raises(BoardFailed, match=r"during 'crash'; kernel panic"):
            board.run("crash", 600)
        assert board.channel.seconds < 200


def test_a_board_that_dies_without_a_word_is_a_dead_console() -> None:
    script = replace(GOOD, deadly={"halt": ""})
    with console(script) as board:
        board.boot(300)
        with pytest.raises(ConsoleError, match="does not answer any more, since 'halt'"):
            board.run("halt", 30)


def test_a_command_that_hangs_is_ended_and_the_shell_lives_on() -> None:
    script = replace(GOOD, hanging=frozenset({"sleep 9999"}))
    with console(script) as board:
        board.boot(300)
        with pytest.raises(CommandTimeout, match="did not end within 20 s"):
            board.run("sleep 9999", 20)
        assert board.run("true").status == 0


@pytest.mark.parametrize("command", ["a\nb", "grüße", "x" * 3000, "tab\t"])
def test_what_a_terminal_line_cannot_carry_is_refused(command: str) -> None:
    with console(GOOD) as board:
        board.boot(300)
        with pytest.raises(ValueError, match="printable ASCII"):
            board.run(command)


def test_a_shell_that_is_slower_than_the_echo_is_not_interrupted() -> None:
    """Seen on a real shell: the prompt after one answer came behind the echo of the next command, was taken
    for that command's end, and the command was ended with Ctrl-C and called too slow."""
    for cable in (Faults(), Faults(drop=0.01)):
        with console(replace(GOOD, lag=0.02), cable, seed=3) as board:
            board.boot(900)
            for _ in range(3):
                assert {command: board.run(command) for command in ANSWERS} == ANSWERS
