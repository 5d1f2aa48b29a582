"""npu-perf on a tree of files in the place of /sys and /proc."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "native/npu-matmul/perf/npu-perf"


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NPU_PERF_ROOT": str(root)}
    return subprocess.run(
        ["sh", str(PROGRAM), *words], env=environment, capture_output=True, text=True, check=False
    )


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def values(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text().strip() for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A vendor kernel on an RK3588: four small processors, four big ones in two clusters."""
    put(tmp_path, "sys/class/devfreq/fdab0000.npu/governor", "rknpu_ondemand")
    put(
        tmp_path, "sys/class/devfreq/fdab0000.npu/available_governors", "rknpu_ondemand userspace performance"
    )
    put(tmp_path, "sys/class/devfreq/dmc/governor", "dmc_ondemand")
    put(tmp_path, "sys/class/devfreq/dmc/available_governors", "dmc_ondemand performance")
    for policy in (0, 4, 6):
        folder = f"sys/devices/system/cpu/cpufreq/policy{policy}"
        put(tmp_path, f"{folder}/scaling_governor", "ondemand")
        put(tmp_path, f"{folder}/scaling_available_governors", "ondemand performance")
    for cpu, capacity in enumerate((530, 530, 530, 530, 1024, 1024, 1000, 1000)):
        put(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity", str(capacity))
        put(tmp_path, f"sys/devices/system/cpu/cpu{cpu}/cpuidle/state1/disable", "0")
    put(
        tmp_path,
        "proc/interrupts",
        "           CPU0       CPU1\n"
        " 35:          0          0     GICv3 142 Level     npu0_irq\n"
        " 36:          0          0     GICv3 143 Level     npu1_irq\n"
        " 99:          7          0     GICv3 110 Level     eth0\n",
    )
    for irq in (35, 36, 99):
        put(tmp_path, f"proc/irq/{irq}/smp_affinity_list", "0-7")
    return tmp_path


def test_on_sets_every_clock_and_the_interrupts(board: Path) -> None:
    result = run(board, "on")
    assert result.returncode == 0, result.stdout + result.stderr
    now = values(board)
    assert now["sys/class/devfreq/fdab0000.npu/governor"] == "performance"
    assert now["sys/class/devfreq/dmc/governor"] == "performance"
    for policy in (0, 4, 6):
        assert now[f"sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor"] == "performance"
    assert now["sys/devices/system/cpu/cpu5/cpuidle/state1/disable"] == "1"
    assert now["proc/irq/35/smp_affinity_list"] == now["proc/irq/36/smp_affinity_list"] == "7"
    assert now["proc/irq/99/smp_affinity_list"] == "0-7", "another device's interrupt is left"
    assert "rknpu_ondemand -> performance" in result.stdout


def test_off_puts_back_what_was_there_even_after_two_ons(board: Path) -> None:
    before = values(board)
    assert run(board, "on").returncode == 0
    assert run(board, "on").returncode == 0
    result = run(board, "off")
    assert result.returncode == 0, result.stdout + result.stderr
    assert values(board) == before


def test_off_without_on_changes_nothing(board: Path) -> None:
    before = values(board)
    result = run(board, "off")
    assert result.returncode == 0
    assert "it was not on" in result.stdout
    assert values(board) == before


def test_mainline_has_no_devfreq_and_is_told_so(board: Path) -> None:
    shutil.rmtree(board / "sys/class/devfreq")
    delay = put(board, "sys/devices/platform/fdab0000.npu/power/autosuspend_delay_ms", "50")
    interrupts = board / "proc/interrupts"
    interrupts.write_text(interrupts.read_text().replace("npu0_irq", "fdab0000.npu"))
    result = run(board, "on")
    assert result.returncode == 0, result.stdout
    assert "no devfreq node" in result.stdout
    assert "dmc/governor: not there" in result.stdout
    assert delay.read_text() == "2000"
    assert (board / "proc/irq/35/smp_affinity_list").read_text() == "7"
    assert run(board, "off").returncode == 0
    assert delay.read_text().strip() == "50"


def test_a_governor_that_is_not_offered_is_not_written(board: Path) -> None:
    offered = board / "sys/class/devfreq/dmc/available_governors"
    offered.write_text("dmc_ondemand")
    result = run(board, "on")
    assert result.returncode == 0
    assert "offers no governor 'performance'" in result.stdout
    assert (board / "sys/class/devfreq/dmc/governor").read_text() == "dmc_ondemand"


def test_a_write_that_does_not_take_is_an_error(board: Path) -> None:
    governor = board / "sys/class/devfreq/dmc/governor"
    governor.unlink()
    governor.symlink_to("/dev/null")  # takes everything and reads back nothing
    result = run(board, "on")
    assert result.returncode == 1
    assert "wrote 'performance', reads ''" in result.stdout
    assert (board / "sys/class/devfreq/fdab0000.npu/governor").read_text() == "performance", (
        "the rest goes on"
    )


def test_a_machine_without_any_of_it_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, "on")
    assert result.returncode == 1
    assert "nothing here could be set" in result.stdout


def test_equal_processors_leave_the_interrupts(board: Path) -> None:
    for cpu in range(4):
        (board / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity").write_text("1024")
    result = run(board, "on")
    assert "no processors larger than others" in result.stdout
    assert (board / "proc/irq/35/smp_affinity_list").read_text() == "0-7"


def test_status_tells_on_from_off(board: Path) -> None:
    assert "npu-perf: off" in run(board, "status").stdout
    run(board, "on")
    shown = run(board, "status").stdout
    assert "npu-perf: on" in shown
    assert "fdab0000.npu/governor: performance" in shown


@pytest.mark.parametrize("words", [(), ("up",), ("on", "now")])
def test_wrong_use(board: Path, words: tuple[str, ...]) -> None:
    result = run(board, *words)
    assert result.returncode == 2
    assert "usage" in result.stderr
