"""The load script of a running board gets its pools over the console: a real shell, a real file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_shell import shell

from boardwright.console.console import Console
from boardwright.errors import InputError
from boardwright.layout.split import Split, parse_cmmpool
from boardwright.repartition import drive

GIB = 2**30
SHIPPED, WANTED = "anonymous,0,0x200000000,4096M", "anonymous,0,0x1C0000000,5120M"
SCRIPT = f"""#!/bin/sh
# insmod /soc/ko/ax_cmm.ko cmmpool=old
insmod /soc/ko/ax_sys.ko
insmod /soc/ko/ax_cmm.ko cmmpool={SHIPPED}
echo "g\xfcltig"
"""
SPLIT = Split(4 * GIB, 8 * GIB, 3 * GIB, parse_cmmpool(WANTED))


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with shell("sh", "-i") as found:
        yield found


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "auto_load_all_drv.sh"
    path.write_text(SCRIPT, encoding="latin-1")
    path.chmod(0o750)
    return path


def test_the_one_line_changes_and_all_else_stays(console: Console, script: Path) -> None:
    said: list[str] = []
    assert drive.set_pools(console, SPLIT, said.append, str(script))
    assert script.read_text(encoding="latin-1") == SCRIPT.replace(SHIPPED, WANTED)
    assert script.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in script.parent.iterdir()] == [script.name]
    assert said == [f"{script} names cmmpool={WANTED}"]
    assert not drive.set_pools(console, SPLIT, said.append, str(script))


def test_a_board_without_the_script_is_said_to_have_none(console: Console, tmp_path: Path) -> None:
    said: list[str] = []
    assert not drive.set_pools(console, SPLIT, said.append, f"{tmp_path}/none")
    assert said == [f"there is no {tmp_path}/none on this board: no pool was changed"]


def test_a_script_that_works_its_pools_out_is_left_alone(console: Console, script: Path) -> None:
    text = SCRIPT.replace(SHIPPED, "$CMM_POOL_PARAM")
    script.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="expected a plain value"):
        drive.set_pools(console, SPLIT, print, str(script))
    assert script.read_text(encoding="latin-1") == text
