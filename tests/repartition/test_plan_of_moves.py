"""The planner on the shipped table: what it does in which order, and every refusal with its number."""

from __future__ import annotations

import dataclasses

import pytest

from boardwright.repartition import parts, report
from boardwright.repartition.parts import Refused
from boardwright.repartition.plan import BEFORE, PLANNED, RESUMES, Held, Plan, Rates, Request, Wanted, make

MIB, GIB = 2**20, 2**30
FRONT = "1536K(uboot),1536K(uboot_bk),1M(env),20M(param),6M(logo),1M(dtb),64M(kernel),1M(atf),1M(optee)"
SHIPPED = f"mmcblk0:{FRONT},24576M(rootfs),512M(soc),4096M(opt)"
AFTER = "24576M(rootfs),512M(soc),4096M(opt)"
LARGER = f"mmcblk0:{FRONT},25600M(rootfs),512M(soc),4096M(opt)"
SIZE = 31 * GIB
USED = {"rootfs": 3 * GIB, "soc": 200 * MIB, "opt": 900 * MIB, "param": 2 * MIB}


def request(to: str, *, stick: int = 8 * GIB, delete: str = "", format: str = "", **changes: int) -> Request:
    used = USED | changes
    held = tuple(
        Held(part, "ext4", part.size, used[part.name])
        if part.name in used
        else Held(part, "raw", part.size, part.size)
        for part in parts.parse(SHIPPED, "mmcblk0", SIZE)
    )
    wanted = tuple(Wanted(part, part.name in format.split()) for part in parts.parse(to, "mmcblk0", SIZE))
    return Request(SIZE, held, wanted, frozenset(delete.split()), stick)


def kinds(plan: Plan) -> list[str]:
    return [f"{operation.kind} {operation.name}" for operation in plan.operations]


def test_the_same_layout_is_nothing_to_do() -> None:
    assert make(request(SHIPPED)).operations == ()


def test_what_an_earlier_run_left_to_be_grown_is_grown_mounted_and_copied_nowhere() -> None:
    asked = request(SHIPPED)
    held = tuple(
        dataclasses.replace(h, extent=h.extent - 2 * GIB) if h.part.name == "rootfs" else h
        for h in asked.held
    )
    plan = make(dataclasses.replace(asked, held=held))
    assert kinds(plan) == ["grow rootfs"]
    assert plan.stick == 0


def test_a_larger_root_moves_what_is_behind_it_over_the_stick() -> None:
    plan = make(request(LARGER))
    assert kinds(plan) == [
        "backup rootfs",
        "resize rootfs",
        "backup soc",
        "backup opt",
        "environment reordered",
        "environment guard",
        "wipe soc",
        "wipe opt",
        "restore rootfs",
        "restore soc",
        "restore opt",
        "environment new",
    ]


def test_until_the_guard_the_board_boots_as_before_and_the_environment_is_the_last_write() -> None:
    plan = make(request(LARGER))
    states = [operation.state for operation in plan.operations]
    guard = kinds(plan).index("environment guard")
    assert set(states[: guard + 1]) == {BEFORE}
    assert set(states[guard + 1 :]) == {RESUMES}
    assert kinds(plan)[-1] == "environment new"


def test_a_stick_without_room_means_moves_in_place_and_says_so() -> None:
    plan = make(request(LARGER, stick=0))
    assert kinds(plan) == [
        "map opt",
        "map soc",
        "environment reordered",
        "environment guard",
        "move opt",
        "wipe opt",
        "move soc",
        "wipe soc",
        "environment new",
        "grow rootfs",
    ]
    assert plan.operations[-1].state == PLANNED
    assert any("soc (200 MiB)" in warning and "no room" in warning for warning in plan.warnings)


def test_a_shrunk_partition_is_put_back_after_the_move_that_makes_room() -> None:
    plan = make(request(f"mmcblk0:{FRONT},24576M(rootfs),256M(soc),4096M(opt)", stick=300 * MIB))
    wanted = ("backup soc", "resize soc", "environment guard", "move opt", "restore soc")
    order = [kinds(plan).index(what) for what in wanted]
    assert order == sorted(order)


def test_what_goes_into_free_space_comes_before_the_guard() -> None:
    plan = make(request(f"mmcblk0:{FRONT},{AFTER},512M(data)", format="data"))
    assert kinds(plan) == ["make data", "restore data", "environment reordered", "environment new"]
    assert {operation.state for operation in plan.operations} == {BEFORE}


def test_what_was_not_unmounted_in_order_is_said() -> None:
    asked = request(LARGER)
    held = tuple(dataclasses.replace(h, clean=h.part.name != "soc") for h in asked.held)
    plan = make(dataclasses.replace(asked, held=held))
    assert any("soc was not unmounted in order" in warning for warning in plan.warnings)


def test_times_follow_the_rates() -> None:
    slow = request(LARGER)
    fast = dataclasses.replace(slow, rates=Rates(240e6, 100e6, 50e6, 24e6))
    assert make(fast).seconds < 0.6 * make(slow).seconds


def test_the_report_names_sizes_states_and_what_cannot_be_promised() -> None:
    asked = request(LARGER, stick=0)
    text = report.text(asked, make(asked))
    for word in ("0x606100000", "0x646100000", "before", "resumes", "no room for a copy", "24 GiB"):
        assert word in text


REFUSALS: list[tuple[str, dict[str, object], str]] = [
    (f"{FRONT},24576M(rootfs),512M(soc)", {}, r"opt \(900 MiB in use\) is not in the new layout"),
    (f"{FRONT},2048M(rootfs),512M(soc),4096M(opt)", {}, "rootfs has 3 GiB in use and would get 2 GiB: 1 GiB"),
    (f"{FRONT},24576M(rootfs),512M(soc),9999M(opt)", {}, r"opt ends at byte \d+, \d+ behind the end"),
    (f"{FRONT},24576M(rootfs),4096M(opt),512M(soc)", {}, "opt is partition 12 and would become 11"),
    (f"{FRONT},20480M(rootfs),512M(soc),4096M(opt)", {"stick": MIB}, "has 1 MiB free and the plan needs"),
    (FRONT.replace("1536K(uboot)", "2M(uboot)") + f",{AFTER}", {}, "uboot has 1572864 and would get 2097152"),
    (FRONT.replace("6M(logo)", "7M(logo)") + f",{AFTER}", {}, "dtb begins at byte 31457280"),
    (
        FRONT.replace("6M(logo)", "4M(logo)").replace("1M(dtb)", "3M(dtb)") + f",{AFTER}",
        {},
        "logo holds bytes of unknown meaning and has 6291456",
    ),
    (f"{FRONT},{AFTER}", {"format": "opt"}, "opt is to be formatted and has 900 MiB"),
    (
        FRONT.removesuffix(",1M(atf),1M(optee)"),
        {"delete": "atf optee rootfs soc opt"},
        "atf cannot be deleted",
    ),
    (f"{FRONT},{AFTER},4K(tiny)", {"format": "tiny"}, "tiny has 4 KiB"),
    (f"{FRONT},{AFTER},0M(none)", {}, "none has 0 bytes"),
    (f"{FRONT},24576M(rootfs),512M(soc),4096M(soc)", {}, "names soc twice"),
    (f"{FRONT},24576M@0(rootfs)", {}, "rootfs is put at byte 0, but partitions before it end at 101711872"),
    (f"{FRONT},24576M[rootfs]", {}, r"entry 10 of blkdevparts is '24576M\[rootfs\]'"),
]


@pytest.mark.parametrize(("to", "options", "number"), REFUSALS)
def test_a_refusal_names_the_number(to: str, options: dict[str, object], number: str) -> None:
    with pytest.raises(Refused, match=number):
        make(request(f"mmcblk0:{to}", **options))  # type: ignore[arg-type]


def test_partitions_in_each_others_way_need_the_stick_for_one() -> None:
    held = (
        Held(parts.Part("a", 0, MIB), "raw", MIB, MIB),
        Held(parts.Part("b", MIB, MIB), "raw", MIB, MIB),
    )
    wanted = (Wanted(parts.Part("a", MIB, MIB)), Wanted(parts.Part("b", 0, MIB)))
    swapped = Request(2 * MIB, held, wanted, stick=9 * MIB)
    with pytest.raises(Refused, match="b is partition 2 and would become 1"):
        make(dataclasses.replace(swapped, wanted=(wanted[1], wanted[0])))
    assert "backup a" in kinds(make(swapped))
    with pytest.raises(Refused, match="a and b stand in each other's way, and a needs 9 MiB on the stick"):
        make(dataclasses.replace(swapped, stick=8 * MIB))


def test_the_rest_of_the_device_can_be_asked_for() -> None:
    found = parts.parse(f"mmcblk0:{FRONT},-(rootfs)", "mmcblk0", SIZE)
    assert found[-1].end == SIZE
    with pytest.raises(Refused, match="rootfs has 0 bytes"):
        parts.parse("mmcblk0:1M(a),-(rootfs)", "mmcblk0", MIB)
