"""Ring and IB tests of radeon and amdgpu in every kernel's format."""

from __future__ import annotations

import pytest
from logs import log

from boardwright.bringup.parsers import amdgpu, chips, radeon, ring_values
from boardwright.bringup.parsers.chips import Chip
from boardwright.bringup.parsers.dmesg import message

ALL = frozenset(range(8))


@pytest.mark.parametrize("name", ["radeon-verde-5.10.txt", "radeon-verde-7.3.txt"])
def test_a_verde_that_works_passes_eight_rings_and_eight_ibs(name: str) -> None:
    report = radeon.parse(log(name))
    assert report.chip is not None
    assert (report.chip.name, report.chip.device, report.chip.generation) == ("VERDE", 0x683F, "si")
    assert report.expected == ALL == report.rings.keys() == report.ibs.keys()
    assert [report.rings[i].microseconds for i in range(8)] == [1, 1, 1, 8, 3, 2, 18, 5]
    assert [report.ibs[i].microseconds for i in range(8)] == [0, 0, 0, 0, 0, None, None, None]
    assert report.initialized is not None
    assert report.accelerated
    assert report.problems() == []


def test_the_unpatched_board_shows_cafedead_and_what_it_means() -> None:
    report = radeon.parse(log("radeon-verde-unpatched-5.10.txt"))
    ring = report.rings[0]
    assert (ring.passed, ring.value, ring.register) == (False, 0xCAFEDEAD, 0x850C)
    assert "never executed the ring" in ring.explanation
    assert not report.accelerated
    first, *rest = report.problems()
    assert first.startswith("ring test of ring 0 (GFX) failed with 0xCAFEDEAD: MMIO works")
    assert "the driver disabled acceleration" in rest


def test_all_ones_are_a_dead_bus() -> None:
    report = radeon.parse(log("radeon-link-down-6.1.txt"))
    assert report.rings[0].value == 0xFFFFFFFF
    assert "does not answer on the bus" in report.problems()[0]


def test_an_oland_has_no_video_encoder_and_misses_nothing() -> None:
    report = radeon.parse(log("radeon-oland-6.12.txt"))
    assert report.expected == frozenset(range(6))
    assert report.problems() == []


def test_a_partial_pass_names_the_ring_and_the_first_cause() -> None:
    report = radeon.parse(log("radeon-cedar-partial-6.1.txt"))
    assert report.expected == {0, 3, 5}
    assert {r for r, t in report.rings.items() if t.passed} == {0, 5}
    assert report.rings[3].register is None
    problems = report.problems()
    assert "ring 3 (DMA)" in problems[0]
    assert "stale cache line" in problems[0]
    assert any("IB test of ring 0 (GFX)" in p for p in problems)
    assert any("fence wait timed out" in p for p in problems)


def test_the_emulated_card_reads_zero() -> None:
    report = radeon.parse(log("radeon-rv100-qemu-6.12.txt"))
    assert report.chip is not None
    assert report.chip.generation == "r100"
    assert (report.rings[0].value, report.rings[0].register) == (0, 0x15E4)
    assert "not implemented" in report.rings[0].explanation
    assert any("cp isn't working" in p for p in report.problems())


def test_a_missing_firmware_is_named() -> None:
    report = radeon.parse(log("radeon-no-firmware-6.12.txt"))
    assert not report.rings
    assert any("radeon/R100_cp.bin" in p for p in report.problems())


def test_a_failed_encoder_leaves_pictures() -> None:
    report = radeon.parse(log("radeon-vce-fails-5.10.txt"))
    assert radeon.video_lost(report)
    problems = report.problems()
    assert "no ring test of ring 6 (VCE1), ring 7 (VCE2) in the log" in problems
    assert any("failed VCE resume (-22)" in p for p in problems)
    assert not radeon.video_lost(radeon.parse(log("radeon-cedar-partial-6.1.txt")))


def test_a_test_that_could_not_be_made_has_its_code() -> None:
    report = radeon.parse(log("radeon-ring-locks-6.1.txt"))
    assert (report.rings[3].code, report.rings[6].code, report.rings[7].code) == (-12, -12, None)
    assert "radeon: cp failed to get scratch reg (-22)." in report.problems()
    waits = radeon.parse(log("radeon-ib-waits-5.10.txt")).ibs
    assert [waits[ring].code for ring in (5, 6, 7)] == [-35, -12, -22]


def test_values_of_ib_tests_in_both_forms() -> None:
    ibs = radeon.parse(log("radeon-ib-values-6.1.txt")).ibs
    assert (ibs[1].value, ibs[1].register) == (0xCAFEDEAD, 0x8510)
    assert (ibs[3].value, ibs[3].register) == (0xCAFEDEAD, None)


def test_a_lockup_counts_although_every_ring_passes_again() -> None:
    report = radeon.parse(log("radeon-lockup-6.18.txt"))
    assert all(test.passed for test in report.rings.values())
    assert len(report.problems()) == 2


def test_a_firmware_of_the_older_name_is_no_problem_where_it_loads() -> None:
    assert radeon.parse(log("radeon-older-firmware-6.12.txt")).problems() == []
    assert any(
        "oland_pfp" in cause.text for cause in radeon.parse(log("radeon-older-firmware-6.12.txt")).causes
    )


def test_old_cards_number_no_ring() -> None:
    report = radeon.parse(log("radeon-r300-4.19.txt"))
    assert report.expected == {0}
    assert report.problems() == []


def test_a_driver_built_in_prints_no_module() -> None:
    report = radeon.parse(log("radeon-builtin-uvd-fails-7.1.txt"))
    assert report.expected == {0, 3, 5}
    assert report.rings[5].value == 0xCAFEDEAD
    assert radeon.video_lost(report)


def test_no_radeon_is_not_seen() -> None:
    assert not radeon.parse("[    0.000000] Booting Linux\n[drm] something else\n").seen
    assert not radeon.parse(log("amdgpu-ib-fails-6.1.txt")).seen


def chip(name: str, device: int = 0x1234) -> Chip:
    return Chip(name, 0x1002, device, "radeon", "")


@pytest.mark.parametrize(
    ("name", "rings"),
    [
        ("RV100", {0}), ("R600", {0, 3}), ("RV770", {0, 3, 5}), ("TURKS", {0, 3, 5}),
        ("CAYMAN", {0, 3, 4, 5}), ("ARUBA", {0, 3, 4, 5, 6, 7}), ("HAINAN", {0, 1, 2, 3, 4}),
        ("OLAND", {0, 1, 2, 3, 4, 5}), ("TAHITI", set(ALL)), ("HAWAII", set(ALL)),
    ],
)  # fmt: skip
def test_expected_rings_follow_the_chip(name: str, rings: set[int]) -> None:
    assert chip(name).rings == rings


def test_a_760g_has_no_video_decoder() -> None:
    assert chip("RS780", 0x9616).rings == {0, 3}
    assert chip("RS780", 0x9610).rings == {0, 3, 5}


def test_a_chip_of_amdgpu_has_no_radeon_rings() -> None:
    assert chip("POLARIS10").rings is None
    assert chip("NEVER SEEN").rings is None


def test_amdgpu_on_the_unpatched_board() -> None:
    report = amdgpu.parse(log("amdgpu-verde-fails-5.10.txt"))
    assert report.initialized is None
    problems = report.problems()
    assert problems[0] == "ring test of gfx failed: ETIMEDOUT: the ring did not answer in time"
    assert any("hw_init of IP block <gfx_v6_0> failed -110" in p for p in problems)
    assert "the driver was not initialised" in problems


def test_amdgpus_silence_is_success_when_the_log_goes_on() -> None:
    report = amdgpu.parse(log("amdgpu-silent-6.12.txt"))
    assert report.silent
    assert report.conclusive
    assert report.problems() == []
    assert report.chip is not None
    assert report.chip.generation == "vi"


def test_amdgpus_silence_says_nothing_before_the_ib_tests() -> None:
    report = amdgpu.parse(log("amdgpu-too-early-6.12.txt"))
    assert report.silent
    assert not report.conclusive
    assert amdgpu.parse(log("amdgpu-too-early-6.12.txt"), "run ib test:\nib ring tests passed.\n").conclusive


def test_debugfs_has_the_last_word() -> None:
    report = amdgpu.parse(log("amdgpu-silent-6.12.txt"), "run ib test:\nib ring tests failed (-110).\n")
    assert report.problems() == ["debugfs amdgpu_test_ib: the IB tests failed"]


def test_amdgpu_tells_of_successes_with_drm_debug() -> None:
    report = amdgpu.parse(log("amdgpu-debug-6.12.txt"))
    assert set(report.rings) == set(report.ibs) == {"gfx", "comp_1.0.0", "sdma0"}
    assert all(t.passed for t in [*report.rings.values(), *report.ibs.values()])
    assert report.chip is not None
    assert all(any(r.startswith(kind) for r in report.rings) for kind in report.chip.ring_kinds)


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("amdgpu-ib-fails-6.1.txt", {"gfx_0.0.0", "sdma0"}),
        ("amdgpu-ib-fails-7.1.txt", {"gfx_0.0.0"}),
        ("amdgpu-mes-6.1.txt", {"sdma_0.0.0"}),
    ],
)
def test_failed_ibs_in_each_kernels_form(name: str, failed: set[str]) -> None:
    report = amdgpu.parse(log(name))
    assert {r for r, t in report.ibs.items() if not t.passed} == failed
    assert not report.silent
    assert report.problems()


def test_the_same_message_of_uvd_and_of_the_kiq() -> None:
    assert not amdgpu.parse(log("amdgpu-ib-fails-7.1.txt")).rings["uvd"].passed
    report = amdgpu.parse(log("amdgpu-kiq-vendor-6.1.txt"))
    assert not report.rings["kiq_2.1.0"].passed
    assert any("gfx_v10_0" in p for p in report.problems())


@pytest.mark.parametrize(
    "ring",
    ["gfx", "gfx_0", "gfx_0.1.0", "comp_1.0.0", "comp_0.1.2.3", "kiq_2.1.0", "mes_3.0.0", "mes_kiq_3.1.0",
     "sdma0", "sdma0.1", "page0", "uvd", "uvd_1", "uvd_enc0", "uvd_enc_0.1", "vce2", "vcn_dec", "vcn_dec_0",
     "vcn_enc1", "vcn_enc_0.1", "vcn_unified_0", "jpeg_dec", "jpeg_dec_0.1", "cper"],
)  # fmt: skip
def test_every_name_of_a_ring(ring: str) -> None:
    card = "amdgpu 0000:01:00.0: "
    lines = (
        f"{card}[drm:amdgpu_ring_test_helper [amdgpu]] *ERROR* ring {ring} test failed (-110)\n"
        f"{card}[drm:amdgpu_ib_ring_tests [amdgpu]] *ERROR* IB test failed on {ring} (-22).\n"
        f"{card}amdgpu: ring {ring} uses VM inv eng 4 on hub 0\n"
    )
    report = amdgpu.parse(lines)
    assert report.rings.keys() == report.ibs.keys() == {ring}
    assert report.problems()[:2] == [
        f"ring test of {ring} failed: ETIMEDOUT: the ring did not answer in time",
        f"IB test of {ring} failed: EINVAL: a wrong value was read, or the ring is not ready",
    ]


def test_amdgpu_of_4_19_speaks_as_radeon_does() -> None:
    report = amdgpu.parse(log("amdgpu-4.19.txt"))
    assert report.rings["0"].passed
    assert report.rings["0"].microseconds == 13
    assert (report.rings["1"].value, report.rings["1"].register) == (0xCAFEDEAD, 0xC040)
    assert not radeon.parse(log("amdgpu-4.19.txt")).rings


def test_a_log_with_radeon_only_is_none_of_amdgpus() -> None:
    assert not amdgpu.parse(log("radeon-verde-unpatched-5.10.txt")).rings


@pytest.mark.parametrize(
    ("line", "driver", "function", "is_error", "text"),
    [
        ("[drm] TEXT", "", "", False, "TEXT"),
        ("<3>[    1.5] [drm:si_startup.part.0 [radeon]] *ERROR* TEXT", "radeon", "si_startup", True, "TEXT"),
        ("[drm:r600_ring_test] *ERROR* TEXT", "", "r600_ring_test", True, "TEXT"),
        ("amdgpu 0000:01:00.0: [drm:f [amdgpu]] *ERROR* TEXT", "amdgpu", "f", True, "TEXT"),
        ("radeon 0000:01:00.0: [drm] *ERROR* TEXT", "radeon", "", True, "TEXT"),
        ("amdgpu 0000:01:00.0: amdgpu: TEXT", "amdgpu", "", False, "TEXT"),
        ("[   12.345678][  T123] radeon 0000:01:00.0: TEXT", "radeon", "", False, "TEXT"),
    ],
)
def test_a_message_is_taken_apart(line: str, driver: str, function: str, is_error: bool, text: str) -> None:
    found = message(line)
    assert (found.driver, found.function, found.is_error, found.text) == (driver, function, is_error, text)


def test_two_cards_are_told_apart_by_their_address() -> None:
    two = log("radeon-builtin-uvd-fails-7.1.txt").replace("0000:01", "0000:02")
    both = log("radeon-verde-7.3.txt") + two
    assert not radeon.parse(both, device="0000:02:00.0").rings[5].passed
    assert radeon.parse(both, device="0000:01:00.0").rings[5].passed


@pytest.mark.parametrize(
    ("value", "register", "words"),
    [
        (0xCAFEDEAD, True, "never executed"), (0xCAFEDEAD, False, "stale cache line"),
        (0xFFFFFFFF, True, "bus"), (0, True, "not implemented"), (0, False, "first value"),
        (0xDEADBEEF, True, "slow"), (0x12345678, False, "corruption"), (None, True, "no value"),
    ],
)  # fmt: skip
def test_a_value_is_explained(value: int | None, register: bool, words: str) -> None:
    assert words in ring_values.explain(value, register=register)


def test_chips_are_detected_once() -> None:
    twice = log("radeon-verde-5.10.txt") * 2
    assert len(chips.detect(message(line) for line in twice.splitlines())) == 1
