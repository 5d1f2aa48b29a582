"""The drivers' back ends in whole programs over fake nodes, built in the sealed environment: x86, arm64."""

from __future__ import annotations

import re

import pytest
from llama_programs import synthetic
from sealed_builds import Lab

pytestmark = pytest.mark.e2e  # two builds, and runs under an emulator: minutes

NODES = ("rocket", "rknpu-0.9.8", "rknpu-0.9.2", "rknpu-misc")


@pytest.fixture(params=["x86_lab", "arm64_lab"], ids=["x86", "arm64"])
def lab(request: pytest.FixtureRequest) -> Lab:
    made: Lab = request.getfixturevalue(request.param)
    return made


def ax_fake(lab: Lab, **more: str) -> dict[str, str]:
    """Variables of the run-time's stand-in, with models of one K; N is held by slices."""
    models = lab.out / "models"
    models.mkdir(exist_ok=True)
    (models / "v1_matmul_npu3_s8_256_16_10000_1.axmodel").write_text(
        '{"matmul": "s8", "k": 256, "d1": 16, "d2": 10000}'
    )
    library = "/out/build/npu-matmul/tests/fake/libfake-ax.so"
    return {
        "NPU_MATMUL_AX_ENGINE": library,
        "NPU_MATMUL_AX_SYS": library,
        "NPU_MATMUL_AX_MODELS": "/out/models",
        **more,
    }


def test_the_list_holds_what_the_back_end_can_do(lab: Lab) -> None:
    """axengine multiplies int8 only."""
    variables = ax_fake(lab)
    said = lab.shell(lab.line("npu-matmul/npu-matmul", "test --quick --backend axengine", **variables))
    right, total = map(int, re.findall(r"(\d+) of (\d+) products right on axengine", said)[0])
    assert right == total > 0
    assert "fp16" not in said
    refused = lab.line(
        "npu-matmul/npu-matmul", "test --backend axengine --type fp16-fp32 --shape 4x32x16", **variables
    )
    assert "int8 only" in lab.shell(refused, bad=3)


def test_whoever_is_asked_to_end_gives_the_device_back(lab: Lab) -> None:
    """The CMM of an AX650N outlives a program that just dies."""
    variables = ax_fake(lab, FAKE_AX_REPORT="/out/left")
    endless = "bench --backend axengine --type int8-int32 --shape 16x256x100000 --seconds 3600"
    line = lab.line("npu-matmul/npu-matmul", endless, **variables)
    lab.shell(f"{line} >said & sleep 3; kill -TERM $!; wait $!", bad=130)
    assert "blocks 0 violations 0" in (lab.out / "left").read_text()


def test_the_suite_over_fakes(lab: Lab) -> None:
    said = lab.shell("meson test -C build --no-rebuild --suite npu-matmul")
    assert len(re.findall(r"over (?:fake nodes|a fake run-time) +OK", said)) == (3 if lab.emulator else 4)


@pytest.mark.parametrize("node", NODES)
def test_every_product_is_right_and_nothing_is_left(lab: Lab, node: str) -> None:
    said = lab.shell(lab.line("npu-matmul/npu-matmul", "test --quick", **lab.fake(node)))
    assert f"right on {node.split('-')[0]}" in said
    assert "0 violations (), left: 0 files, 0 buffers, 0 mappings" in said


@pytest.mark.parametrize(
    ("faults", "status", "text"),
    [
        ("alloc=2", 3, "NM_NO_MEMORY"),
        ("high", 3, "NM_ADDRESS"),
        ("vanish", 3, "NM_NOT_RUN"),
        ("timeout", 3, "NM_TIMEOUT"),
        ("name", 3, "panthor"),
    ],
)
def test_a_fault_is_one_line_and_a_status(lab: Lab, faults: str, status: int, text: str) -> None:
    line = lab.line("npu-matmul/npu-matmul", "test --quick --backend rocket", **lab.fake("rocket", faults))
    said = lab.shell(line, bad=status)
    assert text in said
    assert "left: 0 files, 0 buffers, 0 mappings" in said


def test_the_llama_says_the_same_through_every_driver(lab: Lab) -> None:
    files = synthetic(lab.out, "64,172,3,8,4,512,64")
    words = f"{files.checkpoint.name} -z {files.tokenizer.name} -t 0 -n 20 --weights fp16 2>report --backend "
    tokens = lab.shell(lab.line("llama-runner/llama-run", words + "cpu"))
    assert len(tokens) > 10
    for node in NODES:
        said = lab.shell(lab.line("llama-runner/llama-run", words + node.split("-")[0], **lab.fake(node)))
        assert said == tokens, node
        assert "0 violations (), left: 0 files" in (lab.out / "report").read_text()
