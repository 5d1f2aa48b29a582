"""The environment's three forms, and the damage that U-Boot and we both refuse."""

from __future__ import annotations

import pytest
from world import REST, SHIPPED, STICK_INIT, STICK_ROOT, bootargs

from boardwright.repartition import ubootenv
from boardwright.repartition.parts import Refused, of_bootargs, root_of
from boardwright.vendor import uboot_env

OLD = {"baudrate": "115200", "bootargs": bootargs(SHIPPED), "bootcmd": "axera_boot"}
NEW = SHIPPED.replace("12M(rootfs),4M(soc),8M(opt)", "20M(rootfs),4M(soc),8M(opt)")


def forms(parts: str = NEW) -> ubootenv.Blocks:
    return ubootenv.blocks(ubootenv.make(OLD), parts, "/dev/mmcblk0p10", STICK_ROOT, STICK_INIT)


def test_the_forms_differ_in_their_first_sector_only() -> None:
    found = forms()
    assert found.atomic
    assert found.reordered[512:] == found.guard[512:] == found.new[512:]
    assert len({found.reordered[:512], found.guard[:512], found.new[:512]}) == 3


def test_a_layout_too_long_for_one_sector_is_said_not_to_be_atomic() -> None:
    assert not forms(NEW + "".join(f",1M(partition{n})" for n in range(40))).atomic


def test_each_form_is_what_u_boot_reads() -> None:
    found = forms()
    old, guard, new = (dict(uboot_env.parse(b).variables) for b in (found.reordered, found.guard, found.new))
    assert sorted(old["bootargs"].split()) == sorted(OLD["bootargs"].split())
    assert (root_of(guard["bootargs"]), of_bootargs(guard["bootargs"])) == (STICK_ROOT, SHIPPED)
    assert (root_of(new["bootargs"]), of_bootargs(new["bootargs"])) == ("/dev/mmcblk0p10", NEW)
    assert all(word in new["bootargs"].split() for word in REST.split())
    assert {**new, "bootargs": ""} == {**OLD, "bootargs": ""}


def test_a_bit_of_damage_is_refused_with_both_sums() -> None:
    block = bytearray(ubootenv.make(OLD))
    block[40] ^= 1
    with pytest.raises(Refused, match=r"CRC is [0-9a-f]{8}, expected [0-9a-f]{8}"):
        ubootenv.read(bytes(block))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"bootcmd": "x"}, "has no bootargs"),
        ({"bootargs": "root=/dev/x"}, "one blkdevparts= in the bootargs, found 0"),
        ({"bootargs": "blkdevparts=mmcblk0:1M(a)"}, "one root= in the bootargs, found 0"),
    ],
)
def test_an_environment_without_the_layout_is_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        ubootenv.blocks(ubootenv.make(variables), NEW, "/dev/mmcblk0p10", STICK_ROOT, STICK_INIT)


def test_variables_that_do_not_fit_are_refused_with_their_size() -> None:
    with pytest.raises(Refused, match="needs 131089 bytes, its block has 131072"):
        ubootenv.make({"a": "x" * (ubootenv.SIZE + 9)})


def test_one_shot_bootargs_change_the_root_and_nothing_else() -> None:
    once = ubootenv.one_shot(bootargs(SHIPPED), STICK_ROOT, STICK_INIT)
    assert root_of(once) == STICK_ROOT
    assert f"init={STICK_INIT}" in once.split()
    assert of_bootargs(once) == SHIPPED
    assert {*bootargs(SHIPPED).split()} - {*once.split()} == {"root=/dev/mmcblk0p10"}


def test_who_asks_over_the_console_is_not_overtaken_by_an_interrupted_run() -> None:
    assert ubootenv.HOLD in ubootenv.one_shot(bootargs(SHIPPED), STICK_ROOT, STICK_INIT).split()
    guard = dict(uboot_env.parse(forms().guard).variables)["bootargs"]
    assert ubootenv.HOLD not in guard.split(), "after a power cut the stick goes on by itself"


def with_memory(old: str, new: str) -> ubootenv.Blocks:
    block = ubootenv.make(OLD | {"bootargs": bootargs(SHIPPED).replace("mem=3072M", old)})
    return ubootenv.blocks(block, NEW, "/dev/mmcblk0p10", STICK_ROOT, STICK_INIT, mem=new)


@pytest.mark.parametrize(("old", "new", "then"), [
    ("mem=4096M", "3072M", "3072M"),
    ("mem=4G", "4096M", "4096M"),
    ("", "3072M", "3072M"),
    ("mem=4096M", "", "4096M"),
])  # fmt: skip
def test_linux_gets_its_memory_with_the_layout_and_in_the_same_sector(old: str, new: str, then: str) -> None:
    found = with_memory(old, new)
    forms = [dict(uboot_env.parse(b).variables) for b in (found.reordered, found.guard, found.new)]
    assert [ubootenv.memory_of(form["bootargs"]) for form in forms] == [
        old.removeprefix("mem="), old.removeprefix("mem="), then
    ]  # fmt: skip
    assert found.atomic
    assert found.reordered[512:] == found.new[512:]


def test_linux_never_gets_what_the_npu_has_yet() -> None:
    with pytest.raises(Refused, match=r"has mem=4096M and would get 6G: 2048 MiB of the NPU's pool"):
        with_memory("mem=4096M", "6G")
    with pytest.raises(Refused, match=r"expected mem= such as 3072M, found '3x'"):
        with_memory("mem=4096M", "3x")
    with pytest.raises(Refused, match=r"expected one mem= in the bootargs, found 2"):
        with_memory("mem=4096M mem=1G", "1G")
