"""The checks of bringup-tests/ on boards that are recordings of ours: the right outcome, value and words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from logs import log
from played import BOARD, BOOT, FINE, play, value

from boardwright.bringup.parsers import clocks
from boardwright.console.shell import Result, with_silent_input
from boardwright.results.outcome import Evidence

ABSENT = Result("", 1)
RINGS = "radeon: every ring of the chip passes its ring and IB test"
AMDGPU = "amdgpu: no ring or IB test failed, and the IB tests have run"
BARS = "PCI: every BAR has an address"
IB_TEST = "cat /sys/kernel/debug/dri/*/amdgpu_test_ib"
LSBLK = "lsblk -b -P -o NAME,TYPE,SIZE,PARTLABEL,PARTUUID,FSTYPE,MOUNTPOINT"


def rings(
    tmp_path: Path, dmesg: str, evidence: Evidence = Evidence.HARDWARE, ib: str = ""
) -> dict[str, dict]:
    answers = {
        "modprobe radeon": FINE, "dmesg": dmesg, "command -v lspci": FINE, "lspci -vv": log("lspci-vv.txt"),
        IB_TEST: Result(ib, 0) if ib else ABSENT,
    }  # fmt: skip
    return play(tmp_path, "test_rings.py", answers, evidence=evidence)


@pytest.mark.parametrize(
    ("name", "outcome", "shown", "words"),
    [
        ("radeon-verde-5.10.txt", "pass", 8, ""),
        ("radeon-verde-7.3.txt", "pass", 8, ""),
        ("radeon-oland-6.12.txt", "pass", 6, ""),
        ("radeon-r300-4.19.txt", "pass", 1, ""),
        ("radeon-verde-unpatched-5.10.txt", "fail", 0, "ring test of ring 0 (GFX) failed with 0xCAFEDEAD"),
        ("radeon-link-down-6.1.txt", "fail", 0, "does not answer on the bus"),
        ("radeon-cedar-partial-6.1.txt", "fail", 2, "ring 3 (DMA)"),
        ("radeon-no-firmware-6.12.txt", "fail", 0, "no ring test of ring 0 (GFX) in the log"),
        ("radeon-bonaire-6.18.txt", "pass", 8, ""),
        ("radeon-uvd-retries-5.10.txt", "pass", 3, ""),
        ("radeon-older-firmware-6.12.txt", "pass", 6, ""),
        ("radeon-ib-waits-5.10.txt", "fail", 8, "IB test of ring 5 (UVD) failed: EDEADLK"),
        ("radeon-ib-values-6.1.txt", "fail", 5, "IB test of ring 1 (CP1) failed with 0xCAFEDEAD: MMIO works"),
        ("radeon-r300-ib-fails-4.19.txt", "fail", 1, "IB test of ring 0 (GFX) failed with 0xCAFEDEAD: MMIO"),
        ("radeon-ring-locks-6.1.txt", "fail", 4, "ring test of ring 3 (DMA) failed: ENOMEM"),
        ("radeon-cp-lock-4.19.txt", "fail", 0, "ring test of ring 0 (GFX) failed: ENOMEM"),
        ("radeon-video-gives-up-7.1.txt", "fail", 5, "UVD not responding, giving up"),
        ("radeon-builtin-uvd-fails-7.1.txt", "fail", 2, "ring test of ring 5 (UVD) failed with 0xCAFEDEAD"),
        ("radeon-lockup-6.18.txt", "fail", 3, "ring 0 stalled for more than 10240msec; GPU lockup (current"),
        ("radeon-fatal-6.1.txt", "fail", 0, "Fatal error during GPU init"),
        ("radeon-fatal-modeset-7.3.txt", "fail", 8, "Fatal error during modeset init"),
        ("amdgpu-silent-6.12.txt", "skip", None, "radeon drives no card"),
    ],
)
def test_radeon(tmp_path: Path, name: str, outcome: str, shown: int | None, words: str) -> None:
    check = rings(tmp_path, log(name))[RINGS]
    assert check["outcome"] == outcome, check
    assert words in check["detail"]
    if shown is not None:
        assert value(check, "rings") == shown


def test_a_failed_ring_rests_on_its_line(tmp_path: Path) -> None:
    check = rings(tmp_path, log("radeon-verde-unpatched-5.10.txt"))[RINGS]
    assert any("scratch(0x850C)=0xCAFEDEAD" in line for line in check["lines"])
    assert value(check, "ring test of ring 0 (GFX) left") == "0xCAFEDEAD"
    page = (tmp_path / "report.html").read_text()
    assert 'class="found"' in page


def test_only_video_lost_is_said(tmp_path: Path) -> None:
    check = rings(tmp_path, log("radeon-vce-fails-5.10.txt"))[RINGS]
    assert check["outcome"] == "fail"
    assert check["hint"] == "pictures work, only UVD or VCE does not"


def test_what_radeon_was_told_to_leave_alone_is_not_missed(tmp_path: Path) -> None:
    asked = "grep -H . /sys/module/radeon/parameters/uvd /sys/module/radeon/parameters/vce"
    told = log("radeon-verde-5.10.txt").splitlines()
    without = "\n".join(line for line in told if not re.search("test on (ring )?[67] ", line))
    said = "/sys/module/radeon/parameters/uvd:1\n/sys/module/radeon/parameters/vce:0\n"
    answers = {"modprobe radeon": FINE, "dmesg": without, asked: said}
    check = play(tmp_path, "test_rings.py", answers)[RINGS]
    assert check["outcome"] == "pass", check
    assert check["measurements"][0]["expected"] == 6


def test_the_emulated_card_is_skipped_and_a_real_one_like_it_fails(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.mkdir()
    other.mkdir()
    assert rings(one, log("radeon-rv100-qemu-6.12.txt"), Evidence.EMULATED)[RINGS]["outcome"] == "skip"
    assert rings(other, log("radeon-rv100-qemu-6.12.txt"))[RINGS]["outcome"] == "fail"


@pytest.mark.parametrize(
    ("name", "ib", "outcome", "words"),
    [
        ("amdgpu-silent-6.12.txt", "", "pass", ""),
        ("amdgpu-debug-6.12.txt", "", "pass", ""),
        ("amdgpu-too-early-6.12.txt", "", "skip", "ends before the IB tests"),
        ("amdgpu-too-early-6.12.txt", "run ib test:\nib ring tests passed.\n", "pass", ""),
        (
            "amdgpu-too-early-6.12.txt",
            "run ib test:\nib ring tests failed (-110).\n",
            "fail",
            "IB tests failed",
        ),
        ("amdgpu-verde-fails-5.10.txt", "", "fail", "ring test of gfx failed: ETIMEDOUT"),
        ("amdgpu-ib-fails-7.1.txt", "", "fail", "IB test of gfx_0.0.0 failed"),
        ("amdgpu-kiq-vendor-6.1.txt", "", "fail", "kiq_2.1.0"),
        ("amdgpu-ib-fails-6.1.txt", "", "fail", "IB test of gfx_0.0.0 failed: ETIMEDOUT"),
        ("amdgpu-mes-6.1.txt", "", "fail", "IB test of sdma_0.0.0 failed: ETIMEDOUT"),
        ("amdgpu-mes-6.12.txt", "", "fail", "IB test of mes_kiq_3.1.0 failed: ETIMEDOUT"),
        ("amdgpu-4.19.txt", "", "fail", "ring test of 1 failed: 0xCAFEDEAD: MMIO works"),
        ("amdgpu-fails-7.3.txt", "", "fail", "sw_init of IP block <vce_v3_0> failed -12"),
        ("amdgpu-verde-uvd-6.12.txt", "", "fail", "ring test of uvd failed: ETIMEDOUT"),
        ("amdgpu-kiq-reset-6.12.txt", "", "fail", "kiq ring test failed after ring: comp_1.0.0 queue reset"),
        ("amdgpu-psp-6.1.txt", "", "fail", "psp gfx command ID_LOAD_TOC(0x20) failed"),
        ("amdgpu-timeout-5.10.txt", "", "fail", "ring gfx timeout, signaled seq=412, emitted seq=414"),
        ("amdgpu-soft-recovered-6.12.txt", "", "fail", "ring sdma0 timeout, but soft recovered"),
        ("amdgpu-recovery-fails-6.18.txt", "", "fail", "ib ring test failed (-110)."),
        ("amdgpu-small-bar-5.10.txt", "", "pass", ""),
        ("amdgpu-small-bar-7.3.txt", "", "pass", ""),
        (
            "amdgpu-small-bar-fails-6.12.txt",
            "",
            "fail",
            "Problem resizing BAR0 (-28).; early_init of IP block",
        ),
        ("amdgpu-gives-way-7.3.txt", "", "skip", "amdgpu drives no card"),
        ("radeon-verde-5.10.txt", "", "skip", "amdgpu drives no card"),
    ],
)
def test_amdgpu(tmp_path: Path, name: str, ib: str, outcome: str, words: str) -> None:
    check = rings(tmp_path, log(name), ib=ib)[AMDGPU]
    assert check["outcome"] == outcome, check
    assert words in check["detail"]


def test_bars(tmp_path: Path) -> None:
    lspci = log("lspci-vv.txt").replace("at <unassigned>", "at f0260000")
    answers = {"command -v lspci": FINE, "lspci -vv": lspci, "dmesg": log("bars-5.10.txt"),
               "modprobe radeon": FINE}  # fmt: skip
    check = play(tmp_path, "test_rings.py", answers)[BARS]
    assert check["outcome"] == "pass", check
    assert value(check, "link of 01:00.0") == "8 GT/s x4"


def test_bars_without_space(tmp_path: Path) -> None:
    check = rings(tmp_path, log("bars-no-space-6.12.txt"))[BARS]
    assert check["outcome"] == "fail"
    assert check["detail"] == "no address for 0000:01:00.0 BAR 0 of 256 MiB"


@pytest.mark.parametrize(
    ("name", "window"), [("bars-bridge-6.12.txt", "384 MiB"), ("bars-bridge-5.10.txt", "384 MiB")]
)
def test_a_bridge_window_without_room_is_noted_when_every_bar_has_an_address(
    tmp_path: Path, name: str, window: str
) -> None:
    """Nor does a card miss its virtual functions' BARs, its ROM or its ports."""
    lspci = log("lspci-vv.txt").replace("at <unassigned>", "at f0260000")
    answers = {"command -v lspci": FINE, "lspci -vv": lspci, "dmesg": log(name), "modprobe radeon": FINE}
    check = play(tmp_path, "test_rings.py", answers)[BARS]
    assert check["outcome"] == "pass", check
    noted = next(m for m in check["measurements"] if m["name"] == "bridge windows without room")
    assert (noted["value"], noted["text"]) == (1, f"0000:00:00.0 {window}")
    assert any("failed to assign" in line for line in check["lines"])


def test_a_bar_without_room_because_the_bridge_has_none(tmp_path: Path) -> None:
    check = rings(tmp_path, log("bars-no-space-6.12.txt"))[BARS]
    assert check["hint"] == "no room in the bridge's window: 0000:00:00.0 384 MiB"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pcie-empty-slot-6.1.txt", "phy lock failed"),
        ("pcie-empty-slot-7.3.txt", "probe with driver rockchip-dw-pcie failed with error -110"),
    ],
)
def test_an_empty_slot_is_nothing_to_look_at(tmp_path: Path, name: str, said: str) -> None:
    answers = {"command -v lspci": FINE, "lspci -vv": "", "dmesg": log(name), "modprobe radeon": FINE}
    check = play(tmp_path, "test_rings.py", answers)[BARS]
    assert check["outcome"] == "skip"
    assert check["detail"].startswith("no PCI device: rockchip-")
    assert any(said in line for line in check["lines"])


# pictures

CUBE = with_silent_input("stdbuf -oL kmscube -c 1200")
MARK = with_silent_input("stdbuf -oL glmark2-es2-drm")
FLIP = "(sleep 8; echo) | stdbuf -oL modetest -s 57:1680x1050 -v"
MONITOR = "a connector has a monitor with modes"
FLIPS = "modetest sets the monitor's mode and flips pages at its rate"
KMSCUBE = "kmscube renders on the card at the monitor's rate"
GLMARK2 = "glmark2 runs to its score, each scene near the reference"


def pictures(
    tmp_path: Path,
    cube: Result,
    mark: Result,
    evidence: Evidence = Evidence.HARDWARE,
    *,
    modes: str = "modetest.txt",
    flips: str = "modetest-flips.txt",
) -> dict[str, dict]:
    answers = {
        "ls /dev/dri/card*": "/dev/dri/card0\n", "command -v modetest": FINE, "command -v kmscube": FINE,
        "modetest -c": log(modes), FLIP: log(flips), "command -v glmark2-es2-drm": FINE,
        clocks.COMMAND: "/sys/class/thermal/thermal_zone0/temp:47153\n", CUBE: cube, MARK: mark,
    }  # fmt: skip
    return play(tmp_path, "test_graphics.py", answers, evidence=evidence)


STUTTER = log("kmscube-verde.txt")
STEADY = (
    STUTTER.replace("300 frames in 6.000100", "360 frames in 6.000100")
    .replace("420 frames in 8.000100", "480 frames in 8.000100")
    .replace("599 frames in 10.983433", "599 frames in 9.983433")
)


def test_pictures(tmp_path: Path) -> None:
    checks = pictures(tmp_path, Result(STEADY, 0), Result(log("glmark2-verde.txt"), 0))
    assert {name: check["outcome"] for name, check in checks.items()} == {
        MONITOR: "pass", FLIPS: "pass", KMSCUBE: "pass", GLMARK2: "pass",
    }  # fmt: skip
    cube, mark = checks[KMSCUBE], checks[GLMARK2]
    assert value(checks[FLIPS], "page flips") == 59.95
    assert value(checks[FLIPS], "mode") == "1680x1050 59.95 Hz"
    assert cube["measurements"][0]["name"] == "frames"
    assert cube["measurements"][0]["value"] == pytest.approx(60, abs=0.1)
    assert cube["measurements"][0]["unit"] == "fps"
    assert len(cube["measurements"][0]["series"]) == 5
    assert value(mark, "score") == 1450


def test_pictures_that_fail(tmp_path: Path) -> None:
    checks = pictures(
        tmp_path, Result(log("kmscube-bus-error.txt"), 135), Result(log("glmark2-crash.txt"), 135)
    )
    cube, mark = checks[KMSCUBE], checks[GLMARK2]
    assert (cube["outcome"], cube["detail"]) == ("fail", "kmscube died: Bus error")
    assert "align-hunt" in cube["hint"]
    assert mark["outcome"] == "fail"
    assert mark["detail"].startswith("no score: glmark2 broke off in scene buffer")


def test_a_stutter_and_a_slow_scene(tmp_path: Path) -> None:
    checks = pictures(tmp_path, Result(log("kmscube-verde.txt"), 0), Result(log("glmark2-slow.txt"), 0))
    cube, mark = checks[KMSCUBE], checks[GLMARK2]
    assert cube["detail"] == "1 of 5 intervals were slower than 80 % of 60.0 fps"
    assert "buffer" in mark["detail"]


def test_kmscube_stopped_by_its_input_is_a_fault_of_the_check_and_not_of_the_board(tmp_path: Path) -> None:
    checks = pictures(
        tmp_path, Result(log("kmscube-interrupted.txt"), 0), Result(log("glmark2-verde.txt"), 0)
    )
    assert checks[KMSCUBE]["outcome"] == "error"
    assert "standard input" in checks[KMSCUBE]["detail"]


@pytest.mark.parametrize("error", log("kmscube-errors.txt").splitlines())
def test_each_error_of_kmscube_is_the_boards(tmp_path: Path, error: str) -> None:
    cube = Result(f"{log('kmscube-bus-error.txt').partition('Using modifier')[0]}{error}\n", 255)
    check = pictures(tmp_path, cube, Result("", 1))[KMSCUBE]
    assert (check["outcome"], check["detail"]) == ("fail", f"kmscube: {error}")


@pytest.mark.parametrize(
    ("title", "name", "outcome", "detail"),
    [
        (KMSCUBE, "kmscube-no-monitor.txt", "skip", "no monitor is connected"),
        (KMSCUBE, "kmscube-held.txt", "error",
         "another program holds the display: kmscube: failed to set mode: Permission denied"),
        (GLMARK2, "glmark2-no-monitor.txt", "skip", "no monitor is connected"),
        (GLMARK2, "glmark2-held.txt", "error",
         "another program holds the display: glmark2: Error: Failed to become DRM master"),
        (GLMARK2, "glmark2-setup-fails.txt", "fail", "refract: Set up failed"),
        (GLMARK2, "glmark2-validate.txt", "fail", "no score: glmark2 broke off"),
        (GLMARK2, "glmark2-capped.txt", "pass", ""),
        (GLMARK2, "glmark2-results-2023.txt", "pass", ""),
        (FLIPS, "modetest-stalls.txt", "fail", "modetest: select timed out or error (ret 0)"),
        (FLIPS, "modetest-fails.txt", "error",
         "another program holds the display: modetest: failed to set mode: Permission denied"),
        (MONITOR, "modetest-no-display.txt", "skip", "no display: /dev/dri/card0 is not a KMS device"),
        (MONITOR, "modetest-no-device.txt", "fail", "modetest: no device found"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_of_a_picture(
    tmp_path: Path, title: str, name: str, outcome: str, detail: str
) -> None:
    cube, mark, modes, flips = Result("", 1), Result("", 1), "modetest.txt", "modetest-flips.txt"
    if title == KMSCUBE:
        cube = Result(log(name), 255)
    elif title == GLMARK2:
        mark = Result(log(name), 0)
    elif title == FLIPS:
        flips = name
    else:
        modes = name
    check = pictures(tmp_path, cube, mark, modes=modes, flips=flips)[title]
    assert (check["outcome"], check["detail"]) == (outcome, detail), check


@pytest.mark.parametrize("error", log("modetest-errors.txt").splitlines())
def test_each_error_of_modetest_is_the_boards(tmp_path: Path, error: str) -> None:
    answers = {"ls /dev/dri/card*": "/dev/dri/card0\n", "command -v modetest": FINE,
               "modetest -c": log("modetest.txt"),
               FLIP: f"{log('modetest-stalls.txt').splitlines()[0]}\n{error}\n"}  # fmt: skip
    check = play(tmp_path, "test_graphics.py", answers)[FLIPS]
    assert (check["outcome"], check["detail"]) == ("fail", f"modetest: {error}")


def test_a_mode_flipped_at_half_its_rate_is_wrong(tmp_path: Path) -> None:
    answers = {"ls /dev/dri/card*": "/dev/dri/card0\n", "command -v modetest": FINE,
               "modetest -c": log("modetest.txt"),
               FLIP: log("modetest-flips.txt").replace("59.9", "29.9")}  # fmt: skip
    check = play(tmp_path, "test_graphics.py", answers)[FLIPS]
    assert check["detail"] == "29.95 page flips a second, the mode has 59.95 Hz"


def test_pictures_of_an_emulator_are_not_measured(tmp_path: Path) -> None:
    checks = pictures(tmp_path, Result(STEADY, 0), Result(log("glmark2-verde.txt"), 0), Evidence.EMULATED)
    assert {check["outcome"] for check in checks.values()} == {"skip"}


# NPU and token rates


def npu(tmp_path: Path, matmul: str, llama: str, **changed: str) -> dict[str, dict]:
    model = "llama-run /opt/models/stories110M.bin -z /opt/models/tokenizer.bin -t 0 -n 128 --json -"
    vendor = "(printf 'What is two and two?\\n'; sleep 60; printf 'q\\nexit\\n') | (cd /opt/models/{}"
    answers: dict[str, Result | str] = {
        "command -v npu-matmul": FINE, "ls /dev/accel/accel0": "/dev/accel/accel0\n",
        "ls /sys/bus/platform/drivers/RKNPU": ABSENT, "ls /dev/npu": ABSENT,
        "ls /proc/cpuinfo": ABSENT, "test -f /usr/share/llama-runner/synthetic-260K.bin": ABSENT,
        "npu-matmul test --quick --backend rocket": Result(matmul, 0),
        "npu-matmul bench --quick --json --backend rocket": log("npu-matmul-bench.json"),
        "command -v llama-run": FINE, "command -v llama2c": FINE, clocks.COMMAND: "",
        "test -f /opt/models/stories110M.bin -a -f /opt/models/tokenizer.bin": FINE, model: llama,
        "OMP_NUM_THREADS=1 llama2c /opt/models/stories110M.bin -z /opt/models/tokenizer.bin -t 0 -n 128":
            log("llama2c.txt"),
        "test -d /opt/models/ax-llm": FINE, "test -d /opt/models/axllm": FINE,
        "test -d /opt/models/rknn-llm": FINE,
        vendor.format("ax-llm && ./run.sh)"): log(changed.get("old", "ax-llm-old.txt")),
        vendor.format("axllm && axllm run .)"): log(changed.get("new", "axllm-new.txt")),
        "cat /proc/ax_proc/version": log("ax-version.txt"),
        vendor.format("rknn-llm && RKLLM_LOG_LEVEL=1 ./llm_demo model.rkllm 64 256)"):
            log(changed.get("rknn", "rknn-llm.txt")),
        "PATH=$PATH:/opt/bin; command -v ax_run_model": "/opt/bin/ax_run_model\n",
    }  # fmt: skip
    for name, default in (("mobilenetv2", "ax-run-model-2023.txt"), ("yolov5s", "ax-run-model.txt")):
        file = f"/opt/data/npu/models/{name}.axmodel"
        answers[f"test -f {file}"] = FINE
        answers[
            f"echo 1 > /proc/ax_proc/npu/enable; /opt/bin/ax_run_model -m {file} -w 10 -r 1000; "
            "cat /proc/ax_proc/npu/top"
        ] = log(changed.get(name, default)) + log(changed.get("top", "ax-npu-top.txt"))
    return play(tmp_path, "test_npu.py", answers)


def test_each_runner_has_its_rate(tmp_path: Path) -> None:
    checks = npu(tmp_path, log("npu-matmul.txt"), log("llama-run.json"))
    rates = {
        name: check["measurements"][0]["value"]
        for name, check in checks.items()
        if check["outcome"] == "pass"
    }
    assert rates == {
        "matrix products on rocket are right": 2, "llama-run generates stories110M": 21.73,
        "llama2.c generates stories110M on one CPU thread": 9.7, "ax-llm answers a prompt": 4.42,
        "axllm answers a prompt": 5.76, "rknn-llm answers a prompt": 6.46,
        "ax_run_model runs the vendor's mobilenetv2": 0.72, "ax_run_model runs the vendor's yolov5s": 7.66,
    }  # fmt: skip
    yolo = checks["ax_run_model runs the vendor's yolov5s"]
    assert (value(yolo, "median"), value(yolo, "CMM of the model"), value(yolo, "made for")) == (
        7.655, 12730188, "NPU1",
    )  # fmt: skip
    assert value(yolo, "vnpu_stdd_1 busy") == 73
    assert value(checks["ax-llm answers a prompt"], "CMM left") == 2201 * 2**20
    assert value(checks["rknn-llm answers a prompt"], "memory") == int(4.25 * 2**30)
    assert value(checks["matrix products on rocket are right"], "fp16->fp32 wq") == 2.949


def test_a_wrong_product_is_shown(tmp_path: Path) -> None:
    checks = npu(tmp_path, log("npu-matmul-wrong.txt").replace("rknpu", "rocket"), "no rate at all")
    matmul = checks["matrix products on rocket are right"]
    assert matmul["outcome"] == "fail"
    assert "row 0 column 3 is 0, expected 12" in matmul["detail"]
    assert "told no rate" in checks["llama-run generates stories110M"]["detail"]


OLD, NEW, ROCKCHIP = (f"{runner} answers a prompt" for runner in ("ax-llm", "axllm", "rknn-llm"))
YOLO = "ax_run_model runs the vendor's yolov5s"


@pytest.mark.parametrize(
    ("changed", "title", "outcome", "words", "hint"),
    [
        ({"old": "ax-llm-fails.txt"}, OLD, "fail", "AX_ENGINE_CreateHandle; init axmodel(phi3/", ""),
        ({"new": "axllm-decode.txt"}, NEW, "pass", "", ""),
        ({"new": "axllm-fails.txt"}, NEW, "fail", "init axmodel(qwen3/",
         "the board has the AX650 SDK V1.45.0_P39_20240830020829; axllm needs V3.6.2 or later"),
        ({"rknn": "rknn-llm-demo.txt"}, ROCKCHIP, "pass", "", ""),
        ({"rknn": "rknn-llm-old-driver.txt"}, ROCKCHIP, "pass", "", ""),
        ({"yolov5s": "ax-run-model-fails.txt"}, YOLO, "fail", "[ERROR] Run model in warmup failed.", ""),
        ({"yolov5s": "ax-run-model-3-cores.txt", "top": "ax-npu-top-idle.txt"}, YOLO, "pass", "", ""),
    ],
)  # fmt: skip
def test_the_words_of_the_vendors_programs(
    tmp_path: Path, changed: dict[str, str], title: str, outcome: str, words: str, hint: str
) -> None:
    check = npu(tmp_path, log("npu-matmul.txt"), log("llama-run.json"), **changed)[title]
    assert (check["outcome"], check["hint"]) == (outcome, hint), check
    assert words in check["detail"]


def test_a_model_much_slower_than_the_vendors_figure(tmp_path: Path) -> None:
    checks = npu(tmp_path, log("npu-matmul.txt"), log("llama-run.json"), mobilenetv2="ax-run-model.txt")
    check = checks["ax_run_model runs the vendor's mobilenetv2"]
    assert (check["outcome"], check["detail"]) == ("fail", "7.66 ms, the vendor's 0.72")


# the system


def system(tmp_path: Path, **changed: Result | str) -> dict[str, dict]:
    answers: dict[str, Result | str] = {
        "cat /proc/ax_proc/mem_cmm_info": ABSENT, "cat /proc/cmdline": "mem=4096M rw",
        "command -v lsblk": FINE,
        LSBLK: log("lsblk.txt"), "command -v ip": FINE, "ip -o link": log("ip-link.txt"),
        "ip -o addr": log("ip-addr.txt"), clocks.COMMAND: "/sys/class/thermal/thermal_zone0/temp:47153\n",
        "command -v systemd-analyze": FINE,
        "systemctl is-system-running --wait": "running\n", "command -v dd": FINE,
        "systemd-analyze; systemd-analyze blame | head -n 5": log("systemd-analyze.txt"),
        "dmesg -r": log("dmesg-raw.txt"), "cat /proc/sys/kernel/tainted": "0\n", "dmesg": "[ 0.0] fine\n",
    }  # fmt: skip
    answers["cat /proc/ax_proc/version"] = log("ax-version.txt")
    for skip in (0, 64, 128):
        answers[f"dd if=/dev/mmcblk1 of=/dev/null bs=4M count=32 skip={skip} iflag=direct"] = log(
            "dd-coreutils.txt"
        )
    names = {"cmm": "cat /proc/ax_proc/mem_cmm_info", "lsblk": LSBLK, "clocks": clocks.COMMAND,
             "dmesg": "dmesg",
             "taint": "cat /proc/sys/kernel/tainted", "addr": "ip -o addr"}  # fmt: skip
    manifest = {"inputs": {BOARD.boot.loader: [{"path": "pool/main/u/u-boot/u-boot_2025.01.orig.tar.bz2"}]}}
    boot = (
        tuple((t, text.replace("2025.01", "2017.09")) for t, text in BOOT) if changed.pop("old", "") else BOOT
    )
    answers |= {names[name]: answer for name, answer in changed.items()}
    return play(tmp_path, "test_system.py", answers, manifest=manifest, boot=boot)


def test_a_system_that_is_right(tmp_path: Path) -> None:
    checks = system(tmp_path, cmm=log("mem-cmm-info.txt"))
    assert {name: check["outcome"] for name, check in checks.items()} == dict.fromkeys(checks, "pass")
    assert len(checks) == 8
    assert value(checks["the disk reads at the speed of its kind"], "reading") == pytest.approx(98.3, abs=0.1)
    assert value(checks["where the time of the boot went"], "systemd: userspace") == 64.317
    assert value(checks["where the time of the boot went"], "stage u-boot") == pytest.approx(3.0, abs=0.1)
    assert value(checks["the loader is the image's own"], "came from") == "SD card"
    cmm = checks["CMM beside the kernel's memory, as mem= and the pools say"]
    assert value(cmm, "CMM") == 4096 * 2**20
    assert value(cmm, "firmware: AX650 SDK") == "V1.45.0_P39_20240830020829"


def test_what_axeras_loader_says_of_itself(tmp_path: Path) -> None:
    boot = ((0.5, log("loader-axera.txt")), *BOOT[2:])
    check = play(tmp_path, "test_system.py", {}, boot=boot)["the loader is the image's own"]
    assert [value(check, name) for name in ("U-Boot", "came from", "chip", "boot reason", "bootargs")] == [
        "2020.04", "eMMC", "AX650N", "0", "U-Boot's default",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mem", "total"), [("mem-cmm-info.txt", 4096, 4096), ("mem-cmm-info-two-pools.txt", 1024, 7040)]
)
def test_cmm_of_each_format(tmp_path: Path, name: str, mem: int, total: int) -> None:
    answers = {"cat /proc/ax_proc/mem_cmm_info": log(name), "cat /proc/cmdline": f"mem={mem}M rw"}
    check = play(tmp_path, "test_system.py", answers)[
        "CMM beside the kernel's memory, as mem= and the pools say"
    ]
    assert (check["outcome"], value(check, "CMM")) == ("pass", total * 2**20)


@pytest.mark.parametrize(
    ("changed", "title", "words"),
    [
        ({"old": "yes"},
         "the loader is the image's own", "U-Boot 2017.09 runs, from SD card; the image has 2025.01"),
        ({"taint": "512\n"}, "the kernel is not tainted by a fault", "tainted: warning"),
        ({"dmesg": log("alignment-oops-5.10.txt")},
         "the kernel is not tainted by a fault", "__memset+0x16c/0x188"),
        ({"clocks": log("clocks-rk3588.txt")}, "board is not hot", "npu-thermal is at 86 degrees"),
        ({"lsblk": log("lsblk.txt").replace('"boot"', '"misc"')},
         "partitions are those of the board file", "misc"),
        ({"addr": ""}, "an interface with a cable has an address", "enP4p65s0 no address"),
        ({"cmm": log("mem-cmm-info.txt").replace("Phys(0x200000000", "Phys(0x180000000")},
         "CMM beside the kernel's memory, as mem= and the pools say", "inside the kernel's memory"),
    ],
)  # fmt: skip
def test_a_system_that_is_wrong(tmp_path: Path, changed: dict[str, str], title: str, words: str) -> None:
    checks = system(tmp_path, **changed)
    assert checks[title]["outcome"] == "fail", checks[title]
    assert words in checks[title]["detail"]
    assert [name for name, check in checks.items() if check["outcome"] in ("fail", "error")] == [title]
