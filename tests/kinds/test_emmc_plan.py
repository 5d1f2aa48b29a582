"""The plan of a board without a partition table: what feeds its eMMC, and how its numbers stay in step."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_board_plan import FILES, ROOT, changed

from boardwright.build.plan import Plan, make
from boardwright.build.step import Rendered, Step, Text
from boardwright.errors import InputError
from boardwright.kinds import emmc
from boardwright.kinds.board import image_targets, steps
from boardwright.kinds.context import Context
from boardwright.schema.board import Local, OwnModel
from boardwright.schema.project import load_project
from boardwright.vendor import uboot_env

MODELS = {"stories15M.bin": OwnModel(), "tokenizer.bin": OwnModel()}


def context_of(root: Path, models: dict[str, OwnModel] | None = None) -> Context:
    project = load_project(root)
    return Context(project, project.board("maix-iv"), Local(models=models or {}))


def plan_of(root: Path, models: dict[str, OwnModel] | None = None) -> Plan:
    context = context_of(root, models)
    return make(steps(context), (*image_targets(context), emmc.FOR_VENDOR))


def step_of(plan: Plan, name: str) -> Step:
    step = plan[name].step
    assert isinstance(step, Step)
    return step


def parts_of(plan: Plan, name: str = "partitions") -> dict[str, dict[str, Any]]:
    given = step_of(plan, name).inputs["parts.json"]
    assert isinstance(given, Text)
    return {part["name"]: part for part in json.loads(given.content)["parts"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    return tmp_path


def edit(project: Path, old: str, new: str) -> None:
    board = project / "boards/maix-iv/board.yaml"
    text = board.read_text()
    assert old in text
    board.write_text(text.replace(old, new))


def test_the_emmc_needs_kernel_root_and_stand_ins_and_no_gpt_image(project: Path) -> None:
    plan = plan_of(project)
    assert set(plan["partitions"].needs) == {"tools-image", "linux-7.3", "rootfs", "ax-standin"}
    assert set(plan["emmc"].needs) == {"tools-qemu", "partitions"}
    assert {"image", "overlays", "u-boot-rock5b"}.isdisjoint(plan.steps)


def test_the_kernel_is_rock5bs_to_the_key(project: Path) -> None:
    loaded = load_project(project)
    other = Context(loaded, loaded.board("rock5b"), Local())
    rock5b = make(steps(other), image_targets(other))
    assert plan_of(project)["linux-7.3"].key == rock5b["linux-7.3"].key


def test_what_only_the_vendor_has_is_left_out(project: Path) -> None:
    parts = parts_of(plan_of(project))
    assert set(parts) == {"env", "param", "kernel", "rootfs", "soc", "opt"}
    assert (parts["kernel"]["kind"], parts["rootfs"]["tar"]) == ("image", "rootfs.tar")
    assert (parts["soc"]["tar"], parts["opt"]["tar"], parts["param"]["tar"]) == ("soc.tar", "opt.tar", None)


def test_environment_holds_the_bootargs_of_the_board_file(project: Path) -> None:
    entry = parts_of(plan_of(project))["env"]
    block = base64.b64decode(entry["base64"]).ljust(entry["length"], b"\0")
    bootargs = uboot_env.parse(block).variables["bootargs"]
    assert bootargs.startswith("mem=3072M console=ttyS0,115200n8 ")
    assert "root=/dev/mmcblk0p10 blkdevparts=mmcblk0:1536K(uboot)," in bootargs


def test_another_split_changes_environment_and_pool_and_neither_root_nor_kernel(project: Path) -> None:
    before = plan_of(project)
    edit(project, "linux: 3GiB\n  cmm: 5GiB", "linux: 2GiB\n  cmm: 6GiB")
    after = plan_of(project)
    assert changed(before, after) == {"ax-standin", "partitions", "emmc"}, "nor the vendor's root"
    load = step_of(after, "ax-standin").inputs["load"]
    assert isinstance(load, Rendered)
    assert json.loads(load.variables) == {"cmmpool": "anonymous,0,0x180000000,6144M"}


def test_a_larger_root_reaches_every_consumer(project: Path) -> None:
    edit(project, "{name: soc, size: 512MiB", "{name: soc, size: 640MiB")
    plan = plan_of(project)
    offsets = step_of(plan, "emmc").inputs["offsets"]
    assert isinstance(offsets, Text)
    placed = {name: int(at) for at, name in (line.split() for line in offsets.content.splitlines())}
    assert placed["opt"] - placed["soc"] == 640 * 2**20
    entry = parts_of(plan)["env"]
    block = base64.b64decode(entry["base64"]).ljust(entry["length"], b"\0")
    assert "640M(soc)" in uboot_env.parse(block).variables["bootargs"]


def test_the_emulated_card_is_a_power_of_two_and_no_smaller(project: Path) -> None:
    size = int(step_of(plan_of(project), "emmc").variables["SIZE"])
    assert size == 32 * 2**30
    assert [emmc.card_size(n) for n in (2**30, 2**30 + 1)] == [2**30, 2**31]


def test_a_kernel_that_is_not_compiled_takes_no_stand_in(project: Path) -> None:
    edit(project, "recipe: linux-7.3", "recipe: linux-debian-6.12")
    with pytest.raises(InputError, match=r"needs a kernel of kind kernel, found 'linux-debian-6\.12'"):
        plan_of(project)


def test_a_board_without_a_split_is_refused(project: Path) -> None:
    edit(project, "  linux: 3GiB\n  cmm: 5GiB\n  cmm-for: phi-3-mini\n", "")
    with pytest.raises(InputError, match=r"memory: expected linux, cmm or cmm-for"):
        plan_of(project)


def test_the_root_for_the_vendors_kernel_has_no_modules_of_ours(project: Path) -> None:
    plan = plan_of(project)
    ours, theirs = parts_of(plan)["rootfs"], parts_of(plan, emmc.FOR_VENDOR)
    assert theirs == {"rootfs": ours | {"without": ["usr/lib/modules/*"]}}
    assert step_of(plan, emmc.FOR_VENDOR).outputs == ("rootfs.img",)
    assert set(step_of(plan, emmc.FOR_VENDOR).inputs) == {"parts.json", "rootfs.tar"}
    context = context_of(project)
    assert emmc.FOR_VENDOR not in image_targets(context), "nobody without a vendor's package waits for it"


def test_models_go_onto_the_partition_that_is_mounted_over_their_path(project: Path) -> None:
    """/opt is a partition: what the root has there is hidden by it."""
    before, plan = plan_of(project), plan_of(project, MODELS)
    assert changed(before, plan) == {"partitions", "emmc", "vendor-parts"}, "the root stays"
    wanted = {"files/opt/models/stories15M.bin", "files/opt/models/tokenizer.bin"}
    for name in ("partitions", emmc.FOR_VENDOR):
        assert {path for path in step_of(plan, name).inputs if path.startswith("files")} == wanted
    opt = parts_of(plan)["opt"]
    assert (opt["kind"], opt["tar"], opt["files"]) == ("ext4", "opt.tar", "files/opt")
    assert [part["name"] for part in parts_of(plan).values() if "files" in part] == ["opt"]
    assert parts_of(plan, emmc.FOR_VENDOR)["opt"]["kind"] == "tar"
    assert step_of(plan, emmc.FOR_VENDOR).outputs == ("rootfs.img", "opt.tar")


def test_models_go_into_the_root_where_nothing_is_mounted_over_them(project: Path) -> None:
    edit(project, "contents: data, mount: /opt,", "contents: data, mount: /optional,")
    plan = plan_of(project, MODELS)
    assert "models/opt/models/stories15M.bin" in step_of(plan, "rootfs").inputs
    assert not [part for part in parts_of(plan).values() if "files" in part]
    assert step_of(plan, emmc.FOR_VENDOR).outputs == ("rootfs.img",)


def test_the_nearest_mount_has_them(project: Path) -> None:
    edit(project, "contents: data, mount: /soc}", "contents: data, mount: /opt/models}")
    parts = parts_of(plan_of(project, MODELS))
    assert [name for name, part in parts.items() if "files" in part] == ["soc"]
    inputs = step_of(plan_of(project, MODELS), "partitions").inputs
    assert "files/soc/stories15M.bin" in inputs
