"""`invoke repartition`, the command itself: a board as shipped gets the board file's layout and split.

Evidence: emulated, as in test_repartition.py. The command gets a console and nothing else; what it leaves is
read by the board's own system, which gives it a shell as a vendor's root does.
"""

from __future__ import annotations

import emmc_lab
import pytest
from command import ROOT, invoke
from emmc_lab import Board, listen, read_report

from boardwright.console.console import Console
from boardwright.layout import bootargs
from boardwright.verbs.common import request

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # the kernel is compiled, where it is not in the store yet
SCRIPT = "#!/bin/sh\ninsmod /soc/ko/ax_sys.ko\ninsmod /soc/ko/ax_cmm.ko cmmpool={}\n"
SHIPPED, WANTED = "anonymous,0,0x200000000,4096M", "anonymous,0,0x1C0000000,5120M"
LOADS = "/soc/scripts/auto_load_all_drv.sh"


def repartition(url: str, *words: str) -> str:
    done = invoke("repartition", "--board", "maix-iv", "--console", f"serial:{url}", *words, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """4 GiB for each of Linux and NPU, 24 GiB for the root."""
    return emmc_lab.built(tmp_path_factory.mktemp("board"), mem="4096M", script=SCRIPT.format(SHIPPED))


def test_one_command_gives_the_layout_and_the_split_and_a_second_one_finds_nothing_to_do(
    board: Board,
) -> None:
    layout = bootargs.value(bootargs.bootargs(request(ROOT, "maix-iv", "").context.board), "blkdevparts")
    with board.waiting() as (_, url):
        assert "same" in repartition(url, "--dry-run")
    with board.powered() as (_, port):
        report = read_report(listen(port, "BOARD-END", 120))
        assert report.layout == emmc_lab.SHIPPED, "a dry run changes nothing"
    with board.waiting() as (_, url):
        said = repartition(url, "--yes")
    assert "the board runs with the new layout" in said
    assert f"names cmmpool={WANTED}" in said
    with board.waiting() as (_, url):
        assert "nothing to do: the layouts are the same" in repartition(url, "--yes")
    with board.powered() as (_, port):
        report = read_report(listen(port, "BOARD-END", 120))
        console = Console(port)
        console.boot(60)
        arguments = console.run("cat /proc/cmdline").line.split()
        script = console.run(f"cat {LOADS}").output
    assert report.layout == layout
    assert "mem=3072M" in arguments
    assert script == SCRIPT.format(WANTED)
    report.files.pop(LOADS)
    assert (report.files, report.faults) == (board.files, [])
