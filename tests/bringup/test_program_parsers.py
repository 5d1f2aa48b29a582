"""What programs print, in each format of theirs: the right value out of each."""

from __future__ import annotations

import pytest
from logs import log

from boardwright.bringup.parsers import (
    ax_run_model,
    axera,
    boot_time,
    clocks,
    glmark2,
    kernel_log,
    kmscube,
    memory,
    modetest,
    network,
    npu_matmul,
    pci,
    provenance,
    storage,
    tokens,
)

MIB = 2**20


# base addresses


def test_assigned_bars() -> None:
    bars = {(b.device, b.index): b for b in pci.assignments(log("bars-5.10.txt"))}
    card = bars["0000:01:00.0", 0]
    assert (card.assigned, card.start, card.size) == (True, 0x9_0000_0000, 256 * MIB)
    assert (card.prefetchable, card.wide) == (True, True)
    assert bars["0000:01:00.0", 2].size == 256 * 1024
    assert bars["0000:00:00.0", None].assigned


@pytest.mark.parametrize("name", ["bars-no-space-5.10.txt", "bars-no-space-6.12.txt"])
def test_a_bar_without_space(name: str) -> None:
    bars = {(b.device, b.index): b for b in pci.assignments(log(name))}
    card = bars["0000:01:00.0", 0]
    assert (card.assigned, card.start, card.size) == (False, None, 256 * MIB)
    assert bars["0000:01:00.0", 2].assigned


def test_what_is_no_bar_of_the_card_is_told_apart() -> None:
    bars = {(b.kind, b.index): b for b in pci.assignments(log("bars-bridge-6.12.txt"))}
    assert bars["BAR", 0].assigned
    assert (bars["VF BAR", None].assigned, bars["VF BAR", None].size) == (False, 1024 * MIB)
    assert (bars["bridge window", None].assigned, bars["bridge window", None].size) == (False, 384 * MIB)
    assert not bars["ROM", None].assigned
    assert (bars["BAR", 4].assigned, bars["BAR", 4].ports) == (False, True)
    old = pci.assignments(log("bars-bridge-5.10.txt"))
    assert [(b.kind, b.assigned) for b in old if b.device == "0000:00:00.0"] == [
        ("bridge window", False), ("bridge window", True),
    ]  # fmt: skip


def test_lspci() -> None:
    bridge, card, audio = pci.lspci(log("lspci-vv.txt"))
    assert (bridge.driver, bridge.link) == ("pcieport", (8.0, 4))
    assert card.driver == "radeon"
    assert [(r.index, r.start, r.size) for r in card.regions] == [
        (0, 0x9_0000_0000, 256 * MIB), (2, 0xF020_0000, 256 * 1024), (4, 0x1000, 256),
    ]  # fmt: skip
    assert (card.link, card.capable) == ((8.0, 4), (8.0, 16))
    assert card.unassigned == ()
    assert audio.unassigned == (0,)


# kmscube, glmark2, modetest


def test_kmscube_rates_are_of_intervals() -> None:
    run = kmscube.parse(log("kmscube-verde.txt"))
    assert run.renderer.startswith("AMD Radeon HD 7700")
    assert not run.is_software
    assert run.egl == "1.5"
    assert run.modifiers == (0xFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF)
    assert run.modifiers_failed == 2
    assert [round(r, 1) for r in run.rates] == [60.0, 60.0, 30.0, 60.0, 60.0]
    assert run.frames == 599
    assert run.rate == pytest.approx(60, abs=0.1)  # the average says 54.5 of a cube that stuttered once
    assert not run.errors


def test_kmscube_dies_of_a_bus_error() -> None:
    run = kmscube.parse(log("kmscube-bus-error.txt"))
    assert run.died == "Bus error"
    assert run.rate is None


def test_kmscube_stopped_by_its_standard_input_proves_nothing() -> None:
    run = kmscube.parse(log("kmscube-interrupted.txt"))
    assert run.interrupted
    assert run.is_software
    assert run.frames == 0


def test_glmark2_equals_its_reference() -> None:
    run = glmark2.parse(log("glmark2-verde.txt"))
    assert (run.version, run.score, run.size) == ("2021.12", 1450, (1680, 1050))
    assert "VERDE" in run.renderer
    assert len(run.scenes) == 13
    assert (run.scenes[0].title, run.scenes[0].rate) == ("build use-vbo=false", 939)
    assert glmark2.compare(run) == ([], 13)
    assert run.stopped_in is None


def test_glmark2_slower_than_its_reference() -> None:
    run = glmark2.parse(log("glmark2-slow.txt"))
    assert run.scenes[-1].told == "Unsupported"
    outside, compared = glmark2.compare(run)
    assert compared == 13
    assert [d.title.partition(" ")[0] for d in outside] == ["buffer", "buffer"]
    assert outside[0].ratio == pytest.approx(71 / 214)
    assert glmark2.compare(run, tolerance=0.7)[0] == []


def test_glmark2_that_died_names_its_scene_and_has_no_score() -> None:
    run = glmark2.parse(log("glmark2-crash.txt"))
    assert run.score is None
    assert run.stopped_in is not None
    assert run.stopped_in.name == "buffer"
    assert "Bus error" in run.errors


def test_glmark2_says_what_a_scene_did_instead_of_drawing() -> None:
    validated = glmark2.parse(log("glmark2-validate.txt"))
    assert [(scene.name, scene.told, scene.failed) for scene in validated.scenes] == [
        ("build", "Validation: Success", False), ("texture", "Validation: Failure", True),
        ("terrain", "Validation: Unknown", False), ("conditionals", "Unsupported", False),
    ]  # fmt: skip
    assert (validated.score, validated.stopped_in) == (None, None)
    failing = glmark2.parse(log("glmark2-setup-fails.txt"))
    assert [(s.title, s.told) for s in failing.scenes if s.failed] == [("refract", "Set up failed")]


def test_glmark2_of_2023_with_results_beside_the_rate() -> None:
    run = glmark2.parse(log("glmark2-results-2023.txt"))
    assert (run.version, run.score) == ("2023.01", 1450)
    assert [(s.rate, s.milliseconds, s.busy, s.shaders, s.told) for s in run.scenes] == [
        (939, 1.065, 57.0, 12.25, ""), (150, 6.667, None, 41.0, ""), (None, None, None, None, "done"),
    ]  # fmt: skip
    assert not run.capped
    capped = glmark2.parse(log("glmark2-capped.txt"))
    assert (capped.capped, capped.score, {scene.rate for scene in capped.scenes}) == (True, 60, {60})


def test_modetest() -> None:
    run = modetest.parse(log("modetest.txt"))
    assert run.driver == "radeon"
    (connected,) = run.connected
    assert (connected.name, connected.modes[0]) == ("HDMI-A-1", ("1680x1050", 59.95))
    assert len(run.connectors) == 2
    assert run.mode == ("1680x1050", 59.95)
    assert run.flips == (59.96, 59.95)
    assert modetest.parse(log("modetest-fails.txt")).errors == ("failed to set mode: Permission denied",)
    assert len(modetest.parse(log("modetest-errors.txt")).errors) == 4
    none = modetest.parse(log("modetest-no-device.txt"))
    assert none.refused == (("/dev/dri/card0", "failed"), ("/dev/dri/card1", "is not a KMS device"))
    assert (none.errors, none.renders_only) == (("no device found",), False)
    assert modetest.parse(log("modetest-no-display.txt")).renders_only


def test_both_programs_called_kmstest() -> None:
    assert modetest.parse(log("kmstest-old.txt")).driver == "radeon"
    assert modetest.parse(log("kmstest-old-fails.txt")).refused == (("radeon", "failed"),)
    assert modetest.parse(log("kmstest-kmsxx.txt")).flips == (59.95,)
    assert modetest.parse(log("kmstest-kmsxx-old.txt")).flips == (59.951234,)


# NPU and language models


def test_npu_matmul() -> None:
    run = npu_matmul.parse(log("npu-matmul.txt"))
    assert (run.right, run.total, run.backend, run.evidence) == (2, 2, "rocket", "hardware")
    assert run.wrong == ()
    wrong = npu_matmul.parse(log("npu-matmul-wrong.txt"))
    assert (wrong.right, wrong.total, wrong.backend) == (1, 2, "rknpu")
    assert "1x32x16 WRONG row 0 column 3 is 0, expected 12" in wrong.wrong[0]
    assert not npu_matmul.parse("npu-matmul: 2 of").complete


def test_npu_matmul_as_json() -> None:
    run = npu_matmul.parse(log("npu-matmul-test.json"))
    assert (run.right, run.total, run.backend, run.evidence) == (1, 2, "rocket", "hardware")
    assert run.wrong == ("int8->int32 1x32x16 row 0 column 3 is 0, expected 12",)
    bench = npu_matmul.parse(log("npu-matmul-bench.json"))
    assert bench.rates() == [2.949, 3.495]
    assert bench.rates("gigabytes_per_second") == [2.949, 3.495]
    assert not bench.complete


def test_llama_run_as_json() -> None:
    run = tokens.llama(log("llama-run.json"))
    (rate,) = run.rates
    assert (rate.tokens_per_second, rate.tokens, rate.first, rate.prefill) == (21.73, 250, 310.0, 22.222)
    assert run.memory == 700 * MIB


@pytest.mark.parametrize(
    ("name", "rate"),
    [("llama-run.txt", 21.734512), ("llama-run.json", 21.73), ("llama2c.txt", 9.7)],
)
def test_llama_rates(name: str, rate: float) -> None:
    assert tokens.llama(log(name)).rate == rate


def test_ax_llm_old_and_new() -> None:
    old = tokens.ax_llm(log("ax-llm-old.txt"))
    assert (old.rate, old.rates[0].first, old.memory) == (4.42, 580.16, 2201 * MIB)
    new = tokens.ax_llm(log("axllm-new.txt"))
    assert (new.rate, new.rates[0].first) == (5.76, 860.29)
    assert tokens.ax_llm(log("axllm-decode.txt")).rates[0].tokens_per_second == 4.0
    failed = tokens.ax_llm(log("ax-llm-fails.txt"))
    assert failed.rate is None
    assert len(failed.errors) == 2
    assert "AX_ENGINE_CreateHandle" in failed.errors[0]
    assert "phi3_p128_l17" in failed.errors[1]
    assert tokens.ax_llm(log("axllm-fails.txt")).errors == (
        "init axmodel(qwen3/qwen3_p128_l4_together.axmodel) failed",
    )


def test_rknn_llm() -> None:
    run = tokens.rknn_llm(log("rknn-llm.txt"))
    assert (run.rate, run.memory) == (6.46, int(4.25 * 2**30))
    assert (run.rates[0].tokens, run.rates[0].first, run.rates[0].prefill) == (64, 2201.45, 145.81)
    assert tokens.rknn_llm(log("rknn-llm-demo.txt")).rate == 24.43
    assert "driver version is too low" in tokens.rknn_llm(log("rknn-llm-old-driver.txt")).errors[0]


def test_ax_run_model() -> None:
    run = ax_run_model.parse(log("ax-run-model.txt"))
    assert run.model.endswith("yolov5s.axmodel")
    assert (run.kind, run.least, run.average, run.most) == ("NPU1", 7.628, 7.66, 7.725)
    assert (run.cmm, run.median, run.percentiles) == (12730188, 7.655, {})
    first = ax_run_model.parse(log("ax-run-model-2023.txt"))
    assert (first.kind, first.average, first.median, first.cmm) == ("NPU1", 0.72, None, 4428624)
    last = ax_run_model.parse(log("ax-run-model-3-cores.txt"))
    assert (last.kind, last.average, last.median) == ("3 Core", 3.174, 3.173)
    assert last.percentiles == {5: 3.165, 90: 3.181, 95: 3.186, 99: 3.19}
    failed = ax_run_model.parse(log("ax-run-model-fails.txt"))
    assert failed.average is None
    assert failed.errors[0] == "[ERROR] Run model in warmup failed."


def test_what_axeras_modules_tell() -> None:
    found = axera.version(log("ax-version.txt"))
    assert found is not None
    assert (found.text, found.number) == ("V1.45.0_P39_20240830020829", (1, 45, 0))
    assert axera.version("no such file") is None
    assert axera.npu_use(log("ax-npu-top.txt")) == {"vnpu_stdd_1": 73, "vnpu_stdd_2": 0}
    assert axera.npu_use(log("ax-npu-top-idle.txt")) == {}


# memory, storage, network, clocks


def test_cmm() -> None:
    found = memory.cmm(log("mem-cmm-info.txt"))
    assert found is not None
    assert (found.total, found.used, found.remain) == (4096 * MIB, 283076 * 1024, 3911228 * 1024)
    assert (found.pools[0].start, found.pools[0].end) == (0x2_0000_0000, 0x3_0000_0000)
    assert found.owners == {"TDP_DEV": 80 * 1024, "npu": 282996 * 1024}
    assert found.version == "ax_cmm V1.45.0_P39"
    assert found.problems() == []
    torn = log("mem-cmm-info.txt").replace("used=283076KB", "used=283077KB")
    damaged = memory.cmm(torn)
    assert damaged is not None
    assert damaged.problems()
    assert memory.cmm("no totals") is None


def test_cmm_of_two_pools() -> None:
    found = memory.cmm(log("mem-cmm-info-two-pools.txt"))
    assert found is not None
    assert (found.total, found.used, found.remain) == (7208960 * 1024, 18876 * 1024, 7190084 * 1024)
    assert [(p.name, p.start, p.end, p.size) for p in found.pools] == [
        ("anonymous", 0x1_4800_0000, 0x1_8000_0000, 896 * MIB),
        ("npu", 0x1_8000_0000, 0x3_0000_0000, 6144 * MIB),
    ]
    assert (found.version, found.blocks, found.owners) == ("ax_cmm V3.6.3", 23, {"npu": 18876 * 1024})
    assert found.problems() == []


@pytest.mark.parametrize(
    ("mem", "pool", "wrong"),
    [
        ("4096M", "anonymous,0,0x200000000,4096M", 0), ("2048M", "anonymous,0,0x180000000,6144M", 0),
        ("3072M", "anonymous,0,0x1C0000000,4096M", 0), ("6144M", "anonymous,0,0x200000000,4096M", 1),
        ("2G", "anonymous,0,0x180000000,7G", 1),
    ],
)  # fmt: skip
def test_the_split_of_memory(mem: str, pool: str, wrong: int) -> None:
    command_line = f"mem={mem} console=ttyS0,115200n8 board_id=0x0,boot_reason=0x0,initcall_debug=0 rw"
    size = memory.mem_argument(command_line)
    assert size is not None
    assert len(memory.overlaps(size, memory.pools(f"cmmpool={pool}"))) == wrong


def test_meminfo_and_amounts() -> None:
    assert (
        memory.meminfo("MemTotal:        8055988 kB\nCmaTotal:         524288 kB\n")["CmaTotal"] == 512 * MIB
    )
    assert memory.mem_argument("root=/dev/sda") is None
    assert memory.amount("6G") == 6 * 2**30
    assert memory.amount("much") is None


def test_storage() -> None:
    disk, boot, root = storage.lsblk(log("lsblk.txt"))
    assert (disk.kind, disk.size) == ("disk", 31914983424)
    assert (boot.filesystem, boot.mounted) == ("vfat", "/boot")
    assert (root.label, root.mounted) == ("root", "/")
    assert storage.dd_rate(log("dd-coreutils.txt")) == pytest.approx(268435456 / 2.73)
    assert storage.dd_rate(log("dd-busybox.txt")) == pytest.approx(268435456 / 2.73)
    assert storage.dd_rate("dd: error") is None


def test_blkdevparts() -> None:
    line = "root=/dev/mmcblk0p9 blkdevparts=mmcblk0:768K(spl),512K@1M(ddrinit),24576M(rootfs),-(data) rw"
    (parts,) = storage.blkdevparts(line).values()
    assert [(p.name, p.offset, p.size) for p in parts] == [
        ("spl", 0, 768 * 1024), ("ddrinit", MIB, 512 * 1024), ("rootfs", MIB + 512 * 1024, 24576 * MIB),
        ("data", MIB + 512 * 1024 + 24576 * MIB, None),
    ]  # fmt: skip
    assert storage.blkdevparts("quiet") == {}


def test_network() -> None:
    wire, wireless = network.interfaces(log("ip-link.txt"), log("ip-addr.txt"))
    assert (wire.name, wire.up, wire.carrier, wire.addresses) == (
        "enP4p65s0", True, True, ("192.168.1.20/24",),
    )  # fmt: skip
    assert wire.mac == "00:e0:4c:68:00:01"
    assert (wireless.up, wireless.carrier, wireless.addresses) == (True, False, ())


def test_clocks_before_a_rate() -> None:
    found = clocks.parse(log("clocks-rk3588.txt"))
    assert found.temperatures == {"package-thermal": 47.153, "npu-thermal": 86.0}
    assert found.hottest == 86.0
    by_name = {clock.name: clock for clock in found.clocks}
    assert by_name["fdab0000.npu"].now == 1_000_000_000
    assert (by_name["policy4"].now, by_name["policy4"].most) == (1_200_000_000, 2_352_000_000)
    problems = found.problems()
    assert any("npu-thermal is at 86 degrees" in p for p in problems)
    assert any("policy4 runs at 51%" in p for p in problems)
    assert clocks.parse("").problems() == []


# boot and kernel


def test_systemd_analyze() -> None:
    found = boot_time.systemd(log("systemd-analyze.txt"))
    assert found.parts == {"kernel": 2.104, "userspace": 64.317}
    assert found.total == 66.421
    assert (found.target, found.reached) == ("graphical.target", 63.901)
    assert found.slowest[0] == ("systemd-growfs-root.service", 31.213)
    assert found.slowest[2] == ("systemd-udevd.service", 0.812)
    assert not boot_time.systemd(log("systemd-analyze-busy.txt")).finished


def test_boot_stages() -> None:
    found = boot_time.stages({"kernel": 7.0, "spl": 1.0, "u-boot": 3.0, "systemd": 9.5}, 21.0)
    assert found == [("power-on", 1.0), ("spl", 2.0), ("u-boot", 4.0), ("kernel", 2.5), ("systemd", 11.5)]
    assert boot_time.stages({}, 2.0) == [("power-on", 2.0)]  # the board was up before us


def test_the_loader_of_the_card() -> None:
    found = provenance.parse(log("loader-rock5b-sd.txt"))
    assert (found.source, found.medium) == ("MMC2", "SD card")
    assert found.versions["u-boot"] == "2025.01"
    assert found.versions["bl31"] == "v2.12.0(release):"
    assert found.versions["ddr"] == "1.18"
    assert provenance.differs(found, "2025.01") is None


def test_an_older_loader_in_flash() -> None:
    found = provenance.parse(log("loader-rock5b-spi-vendor.txt"))
    assert found.tried == ("MMC2", "MMC1", "SPI")
    assert found.medium == "SPI flash"
    wrong = provenance.differs(found, "2025.01")
    assert wrong is not None
    assert wrong.startswith("U-Boot 2017.09-gd2f5a2d runs, from SPI flash")


def test_another_boot_starts_anew() -> None:
    both = log("loader-rock5b-spi-vendor.txt") + log("loader-rock5b-sd.txt")
    assert provenance.parse(both).medium == "SD card"


def test_axeras_loader() -> None:
    found = provenance.parse(log("loader-axera.txt"))
    assert (found.medium, found.versions["u-boot"]) == ("eMMC", "2020.04")
    assert (found.chip, found.reason, found.default_bootargs) == ("AX650N", "0", True)
    assert provenance.differs(provenance.parse(""), "2025.01")


def test_kernel_levels_and_taints() -> None:
    found = kernel_log.levels(log("dmesg-raw.txt"))
    assert (found.counts["err"], found.counts["warn"], found.counts["info"]) == (2, 1, 2)
    assert found.worst == ("rockchip-dw-pcie fe150000.pcie: phy lock failed",)
    assert kernel_log.taints(0) == []
    assert kernel_log.taints(1 << 9 | 1 << 12) == ["warning", "out-of-tree module"]
    assert kernel_log.taints(1 << 60)


def test_alignment_faults() -> None:
    (kernel,) = kernel_log.alignment_faults(log("alignment-oops-5.10.txt"))
    assert (kernel.write, kernel.kernel, kernel.where) == (True, True, "__memset+0x16c/0x188")
    (program,) = kernel_log.alignment_faults(log("alignment-user-6.12.txt"))
    assert (program.write, program.kernel) == (True, False)
    assert kernel_log.alignment_faults("ESR = 0x0000000096000004") == []  # a translation fault
