"""Overlays apply as the loader would apply them, or the build stops and says why. Real dtc and fdtoverlay."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from imaging import CODE, tools

from boardwright.build.sandbox import Seal, argv
from boardwright.sealed import fdt
from boardwright.sealed.dtoverlay import absent, changed, directives

OWN = CODE.parent / "overlays/device-tree/rock5b"

BOARD = """
/dts-v1/;
/ {
	#address-cells = <2>; #size-cells = <2>;
	reserved-memory { #address-cells = <2>; #size-cells = <2>; ranges; };
	vcc3v3_pcie30: regulator { compatible = "regulator-fixed"; startup-delay-us = <5000>; };
	vdd_npu_s0: npu-regulator { };
	rknn_core_0: npu@fdab0000 { status = "disabled"; };
	rknn_core_1: npu@fdac0000 { status = "disabled"; };
	rknn_core_2: npu@fdad0000 { status = "disabled"; };
	rknn_mmu_0: iommu@fdab9000 { status = "disabled"; };
	rknn_mmu_1: iommu@fdaca000 { status = "disabled"; };
	rknn_mmu_2: iommu@fdada000 { status = "disabled"; };
};
"""


def overlay(body: str, comment: str = "") -> str:
    return f"/dts-v1/;\n/plugin/;\n/*\n{comment}\n*/\n{body}\n"


SLOW = overlay("&vcc3v3_pcie30 { startup-delay-us = <9000>; };")


@dataclass(frozen=True)
class Outcome:
    status: int
    said: str
    out: Path

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {result["name"]: result for result in json.loads((self.out / "overlays.json").read_text())}


def sandboxed(script: str, inputs: Path, out: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    work = out.parent / f"{out.name}.work"
    for directory in (out, work):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    sealed = {f"/in/sealed/{name}": CODE / "sealed" / name for name in ("dtoverlay.py", "fdt.py")}
    seal = Seal(
        root=tools(),
        read_only={f"/in/{path.name}": path for path in inputs.iterdir()} | sealed,
        writable={"/work": work, "/out": out},
        variables=variables,
        directory="/work",
    )
    command = argv(seal, ["/bin/bash", "-euo", "pipefail", "-c", script])
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def build(
    path: Path, overlays: dict[str, str], *, required: str = "", board: str = BOARD, symbols: str = "-@"
) -> Outcome:
    """The overlays step, on a board compiled with or without symbols."""
    inputs, out = path / "in", path / "out"
    (inputs / "overlays").mkdir(parents=True)
    (inputs / "board.dts").write_text(board)
    for name, text in overlays.items():
        (inputs / f"overlays/{name}.dtso").write_text(text)
    base = sandboxed(f"dtc -q {symbols} -O dtb -o /out/dtb /in/board.dts", inputs, path / "base")
    assert base.returncode == 0, base.stderr
    (path / "base/dtb").rename(inputs / "dtb")
    script = (CODE / "kinds/overlays.sh").read_text()
    result = sandboxed(script, inputs, out, REQUIRED=required)
    return Outcome(result.returncode, result.stdout + result.stderr, out)


def own() -> dict[str, str]:
    return {path.stem: path.read_text() for path in OWN.glob("*.dtso")}


def test_the_projects_overlays_apply_and_say_what_they_change(tmp_path: Path) -> None:
    made = build(tmp_path, own(), required="cma-512m radeon-egpu npu")
    assert made.status == 0, made.said
    assert {name: result["state"] for name, result in made.results.items()} == {
        "cma-512m": "applied",
        "npu": "applied",
        "radeon-egpu": "applied",
    }
    assert made.results["cma-512m"]["effect"] == ["/reserved-memory/linux,cma"]
    assert made.results["radeon-egpu"]["effect"] == ["/regulator"]
    # Three cores and three IOMMUs.
    assert len(made.results["npu"]["effect"]) == 6


def test_the_memory_overlay_says_512_mib_below_4_gib_and_nothing_else() -> None:
    text = (OWN / "cma-512m.dtso").read_text()
    assert directives(text, "expects")[:2] == [
        ["/reserved-memory/linux,cma", "size", "0", "20000000"],
        ["/reserved-memory/linux,cma", "alloc-ranges", "0", "0", "1", "0"],
    ]


def test_a_tree_without_the_needed_labels_skips_the_overlay_with_the_reason(tmp_path: Path) -> None:
    older = "\n".join(line for line in BOARD.splitlines() if "rknn" not in line)
    made = build(tmp_path, own(), board=older)
    assert made.status == 0, made.said
    assert made.results["npu"]["state"] == "skipped"
    assert "no label &rknn_core_0" in made.results["npu"]["reason"]
    assert not (made.out / "overlays/npu.dtbo").exists()
    assert (made.out / "overlays/cma-512m.dtbo").exists()


def test_a_tree_without_symbols_takes_only_what_needs_no_label(tmp_path: Path) -> None:
    made = build(tmp_path, own(), symbols="")
    assert made.status == 0, made.said
    assert {name for name, result in made.results.items() if result["state"] == "applied"} == {"cma-512m"}
    assert "compiled without symbols" in made.results["radeon-egpu"]["reason"]


def test_a_skipped_overlay_that_the_board_asks_for_stops_the_build(tmp_path: Path) -> None:
    made = build(tmp_path, own(), symbols="", required="npu")
    assert made.status == 1
    assert "overlay npu.dtso: the board file asks for it, but the device tree has no label" in made.said


def test_an_undeclared_label_that_is_not_there_stops_the_build_and_the_nearest_is_named(
    tmp_path: Path,
) -> None:
    made = build(tmp_path, {"typo": overlay('&vcc3v3_pcie3 { status = "okay"; };')})
    assert made.status == 1
    assert (
        "overlay typo.dtso: expected a device tree with label &vcc3v3_pcie3 "
        "(the nearest is &vcc3v3_pcie30), found none" in made.said
    )


def test_a_path_that_is_not_there_stops_the_build(tmp_path: Path) -> None:
    made = build(tmp_path, {"path": overlay('&{/soc/nowhere} { status = "okay"; };')})
    assert made.status == 1
    assert "overlay path.dtso:" in made.said
    assert "FDT_ERR_NOTFOUND" in made.said


@pytest.mark.parametrize(
    "promise",
    [
        "&vcc3v3_pcie30 startup-delay-us 7a120",
        "&vcc3v3_pcie30 regulator-always-on",
        '&vcc3v3_pcie30 compatible "something-else"',
        "/nowhere reg 0",
    ],
)
def test_a_promise_that_is_not_kept_stops_the_build(tmp_path: Path, promise: str) -> None:
    made = build(tmp_path, {"promise": SLOW.replace("/*\n", f"/* boardwright: expects {promise}\n", 1)})
    assert made.status == 1
    assert f"overlay promise.dtso: expected {promise} after applying it, found " in made.said


def test_a_kept_promise_and_an_overlay_that_changes_nothing(tmp_path: Path) -> None:
    same = overlay(
        "&vcc3v3_pcie30 { startup-delay-us = <5000>; };",
        "boardwright: expects &vcc3v3_pcie30 startup-delay-us 1388\n"
        'boardwright: expects /regulator compatible "regulator-fixed"',
    )
    made = build(tmp_path, {"same": same})
    assert made.status == 0, made.said
    assert made.results["same"]["effect"] == []
    assert "changes nothing in this tree" in made.said


def test_a_syntax_error_stops_the_build_with_the_compilers_words(tmp_path: Path) -> None:
    made = build(tmp_path, {"broken": overlay("&vcc3v3_pcie30 { startup-delay-us = <5000> };"), "slow": SLOW})
    assert made.status == 1
    assert "overlay broken.dtso: " in made.said
    assert "syntax error" in made.said
    assert "slow" in made.results, "the others are tried all the same"


def test_an_overlay_the_board_asks_for_and_does_not_have(tmp_path: Path) -> None:
    made = build(tmp_path, {"radeon-egpu": SLOW}, required="radeon-egpus")
    assert made.status == 1
    assert "asks for overlay radeon-egpus, found none of that name; the nearest is radeon-egpu" in made.said


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = [build(tmp_path / name, own()) for name in ("first", "second")]
    trees = [{p.name: p.read_bytes() for p in sorted(m.out.rglob("*")) if p.is_file()} for m in made]
    assert len(trees[0]) == 4
    assert trees[0] == trees[1]


def test_changes_are_told_by_node_and_the_table_of_symbols_is_none() -> None:
    before: fdt.Tree = {"/": {}, "/a": {"x": b"1"}, "/b": {}, "/__symbols__": {}}
    after: fdt.Tree = {"/": {}, "/a": {"x": b"2"}, "/c": {}, "/__symbols__": {"l": b"/c\0"}}
    assert changed(before, after) == ["/a", "/b", "/c"]


def test_a_missing_label_without_a_near_one_is_named_alone() -> None:
    assert absent("zzz", {"vcc", "pcie"}) == "label &zzz"
