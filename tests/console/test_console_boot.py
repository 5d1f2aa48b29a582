"""A boot ends at a shell, or with the first cause and the right culprit; never with a hang."""

from __future__ import annotations

from dataclasses import replace

import pytest
from console_boards import ANSWERS, GOOD, KERNEL, LOADER, USER, console, stopping_with

from boardwright.console.errors import (
    BoardFailed,
    ConsoleError,
    ConsoleGarbled,
    ConsoleLost,
    ConsoleSilent,
    ConsoleSlow,
    LoginRefused,
)
from boardwright.console.patterns import Stage
from boardwright.console.simulator import Faults
from boardwright.errors import ExitStatus


def test_a_good_board_reaches_the_shell_and_reports_its_milestones() -> None:
    with console(GOOD) as board:
        report = board.boot(300)
    assert board.stage is Stage.SHELL
    assert list(report.milestones) == [
        "spl", "bl31", "u-boot", "autoboot", "starting kernel", "kernel", "systemd"
    ]  # fmt: skip
    assert report.milestones["kernel"] == pytest.approx(4.2, abs=0.1)
    assert report.findings == ()


@pytest.mark.parametrize(
    "change",
    [
        {"autologin": False},
        {"autologin": False, "login_flush": True},
        {"escapes": True},
        {"echo": False},
        {
            "chatter": (
                "[   12.0] usb 1-1: new device",
                "[   13.0] root@rock5b:~# ",
                "[   14.0] rock5b login: ",
            )
        },
    ],
    ids=lambda change: ",".join(change),
)
def test_login_and_answers_survive(change: dict[str, object]) -> None:
    with console(replace(GOOD, **change)) as board:  # type: ignore[arg-type]
        board.boot(600)
        assert {command: board.run(command) for command in ANSWERS} == ANSWERS


def test_a_password_is_given_and_kept_out_of_the_transcript(tmp_path: object) -> None:
    from pathlib import Path

    from boardwright.console.transcript import Transcript

    path = Path(str(tmp_path)) / "console.cast"
    script = replace(GOOD, autologin=False, password="hunter2")
    with console(script, password="hunter2", transcript=Transcript(path)) as board:
        board.boot(300)
    assert "hunter2" not in path.read_text()
    assert "***" in path.read_text()


def test_a_wrong_password_is_a_lab_error_not_a_failure_of_the_board() -> None:
    script = replace(GOOD, autologin=False, password="hunter2")
    with console(script, password="wrong") as board, pytest.raises(LoginRefused, match="root") as caught:
        board.boot(300)
    assert caught.value.exit_status is ExitStatus.HOST


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["[    2.0] Kernel panic - not syncing: Attempted to kill init!"], "kernel panic"),
        (
            [
                "[    2.0] VFS: Cannot open root device \"PARTUUID=12\" or unknown-block(0,0): error -6",
                "[    2.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
            ],
            "root not mounted",
        ),
        (
            [
                "[    2.0] Unable to handle kernel NULL pointer dereference at virtual address 0000",
                "[    2.1] Internal error: Oops: 0000000096000004 [#1] SMP",
                "[    2.2] Kernel panic - not syncing: Oops: Fatal exception",
            ],
            "oops at .*NULL pointer.*then kernel panic",
        ),
        (["initramfs: root=PARTUUID=0b0b did not appear within 30 s"], "root not mounted"),
        (["initramfs: /dev/vda2 cannot be mounted as ext4"], "root not mounted"),
        (["initramfs: there is no /sbin/init in the root"], "init not found"),
        (["Gave up waiting for root file system device.", "(initramfs) "], "root not mounted"),
        (["You are in emergency mode. After logging in, type \"journalctl -xb\""], "emergency mode"),
        (["[   90.0] Out of memory: Killed process 1 (systemd)"], "out of memory"),
        (["[  242.0] INFO: task swapper/0:1 blocked for more than 120 seconds."], "hung task"),
    ],
)  # fmt: skip
def test_the_first_cause_is_named(lines: list[str], cause: str) -> None:
    with console(stopping_with(*lines)) as board, pytest.raises(BoardFailed, match=cause) as caught:
        board.boot(600)
    assert caught.value.exit_status is ExitStatus.PRODUCT


def test_a_panic_is_reported_at_once_and_not_when_the_budget_is_spent() -> None:
    with console(stopping_with("[ 2.0] Kernel panic - not syncing: x")) as board, pytest.raises(BoardFailed):
        board.boot(600)
    assert board.channel.seconds < 20


def test_a_kernel_that_waits_for_its_root_is_given_up_on_after_forty_seconds() -> None:
    script = stopping_with("[    1.9] Waiting for root device PARTUUID=0b0b...")
    with console(script) as board, pytest.raises(BoardFailed, match=r"fell silent.*Waiting for root device"):
        board.boot(600)
    assert board.channel.seconds < 60


@pytest.mark.parametrize("again", [LOADER, KERNEL], ids=["through the loader", "straight into the kernel"])
def test_a_board_that_starts_again_is_reset_not_slow(again: tuple[tuple[float, str], ...]) -> None:
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *again, *USER))
    with console(script) as board, pytest.raises(BoardFailed, match="unexpected reset"):
        board.boot(600)


def test_a_panic_before_the_reset_is_the_cause_of_the_reset() -> None:
    oops = ((0.1, "[ 2.0] Internal error: Oops: 96000004 [#1] SMP\n"),)
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *oops, *LOADER, *KERNEL))
    with console(script) as board, pytest.raises(BoardFailed, match=r"oops at .*then unexpected reset"):
        board.boot(600)


def test_a_busy_host_is_waited_for_and_not_taken_for_a_stuck_board() -> None:
    """Seen with ten processes on two CPUs: udev took over 90 s, and no login prompt came."""
    pause = ((300.0, "[  302.0] at last\n"),)
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *pause, *USER))
    with console(script, slowdown=lambda: 5.0) as board:
        board.boot(900)
    with console(script) as board, pytest.raises(BoardFailed, match="fell silent"):
        board.boot(900)


@pytest.mark.parametrize(("slowdown", "error"), [(1.0, BoardFailed), (5.0, ConsoleSlow)])
def test_a_timeout_inside_the_system_is_the_boards_fault_only_on_a_quiet_host(
    slowdown: float, error: type[Exception]
) -> None:
    lines = (
        "[ TIME ] Timed out waiting for device dev-ttyAMA0.device - /dev/ttyAMA0.",
        "[DEPEND] Dependency failed for serial-getty@ttyAMA0.service - Serial Getty on ttyAMA0.",
    )
    with console(stopping_with(*lines), slowdown=lambda: slowdown) as board:
        with pytest.raises(error, match=r"no login on the console|device not found"):
            board.boot(900)
        assert board.channel.seconds < 30


def test_a_panic_is_the_boards_fault_on_any_host() -> None:
    script = stopping_with("[    2.0] Kernel panic - not syncing: x")
    with console(script, slowdown=lambda: 9.0) as board, pytest.raises(BoardFailed, match="kernel panic"):
        board.boot(900)


def test_the_echo_of_our_own_enter_is_not_a_sign_of_life() -> None:
    """Found on QEMU: a kernel that waits for its root echoes what is typed, and was waited for for ever."""
    echoes = tuple((10.0, "\n") for _ in range(60))
    waiting = ((0.1, "[    1.9] Waiting for root device PARTUUID=0b0b...\n"), *echoes)
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *waiting), reaches_shell=False)
    with console(script) as board, pytest.raises(BoardFailed, match="no root device"):
        board.boot(600)
    assert board.channel.seconds < 60


def test_a_loader_that_stays_at_its_prompt_is_a_failure_of_the_board() -> None:
    script = replace(
        GOOD, boot=(*LOADER[:3], (1.0, "\n** Unable to read file /Image **\n=> ")), reaches_shell=False
    )
    with console(script) as board, pytest.raises(BoardFailed, match="loader stopped at its own prompt"):
        board.boot(600)


def test_no_byte_at_all_is_a_silent_lab() -> None:
    script = replace(GOOD, boot=(), reaches_shell=False)
    with console(script) as board, pytest.raises(ConsoleSilent, match="not one byte") as caught:
        board.boot(600)
    assert caught.value.exit_status is ExitStatus.HOST


def test_silence_after_the_kernel_started_is_a_stuck_board() -> None:
    with console(stopping_with("[    2.0] random: crng init done")) as board:
        with pytest.raises(BoardFailed, match=r"fell silent .* stage kernel, after .*crng init done"):
            board.boot(600)
        assert board.channel.seconds < 180


def test_a_board_that_still_talks_when_the_budget_ends_is_slow_not_faulty() -> None:
    talk = tuple((2.0, f"[{n:5d}.0] still here\n") for n in range(400))
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *talk))
    with console(script) as board, pytest.raises(ConsoleSlow, match="budget of 60 s"):
        board.boot(60)


def test_a_wrong_baud_rate_is_recognised() -> None:
    import random

    noise = random.Random(1)
    text = "".join(chr(noise.randrange(0x80, 0x100)) for _ in range(3000))
    script = replace(GOOD, boot=((0.5, text),), reaches_shell=False)
    port_faults = Faults(flip=0.3)
    with console(script, port_faults) as board, pytest.raises(ConsoleGarbled, match="cannot be decoded"):
        board.boot(600)


def test_a_pulled_cable_is_a_lost_console() -> None:
    with console(GOOD, Faults(lost_after=400)) as board, pytest.raises(ConsoleLost):
        board.boot(300)


def test_an_autologin_that_never_gives_a_shell_is_told_from_a_slow_board() -> None:
    text = "\nDebian GNU/Linux 13 rock5b ttyAMA0\n\nrock5b login: root (automatic login)\n\n"
    script = replace(GOOD, boot=(*LOADER, *KERNEL, *USER, *((11.0, text),) * 20), reaches_shell=False)
    with console(script) as board, pytest.raises(BoardFailed, match="logged in by itself 6 times"):
        board.boot(600)


def test_a_command_before_the_shell_is_refused() -> None:
    with console(GOOD) as board, pytest.raises(ConsoleError, match="stage 'off'"):
        board.run("true")
