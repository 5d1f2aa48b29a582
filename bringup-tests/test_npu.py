"""Matrix products on the NPU, and token rates by each runner that the board has. Prompts are short."""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import ax_run_model, axera, npu_matmul, tokens
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.results.outcome import Evidence

SLOWEST = 1.0
"""Tokens a second below which a runner did not do what it is for."""
MODELS = "/opt/models"
"""Where the checks look for checkpoints; the image holds none."""
_EMULATED = "no NPU is emulated, and the CPU's rates would be the host's"


DEVICES = {
    "rocket": "/dev/accel/accel0",
    "rknpu": "/sys/bus/platform/drivers/RKNPU",
    "axengine": "/dev/npu",
    "cpu": "/proc/cpuinfo",
    "model": "/proc/cpuinfo",
}
"""What there is where a back end can be opened."""
AX_MODELS = {"mobilenetv2": 0.72, "yolov5s": 7.66}
"""The vendor's models on its own root, in ``/opt/data/npu/models``, with milliseconds on one core of an
AXera-Pi Pro as Sipeed's wiki and Pulsar2's guide have them."""
OLDEST_SDK = {"ax-llm": (1, 45, 0), "axllm": (3, 6, 2)}
"""What each generation of the runner needs, as its README and Pulsar2's guide say."""
SYNTHETIC = "/usr/share/llama-runner/synthetic-260K"
"""The package's own model: weights that mean nothing, of the smallest shape that exists."""


@pytest.mark.parametrize("backend", DEVICES)
def test_matmul(backend: str, console: Console, bench_: Bench, check: Check) -> None:
    """matrix products on {backend} are right"""
    board.need(console, "npu-matmul")
    if console.run(f"ls {DEVICES[backend]}").status != 0:
        pytest.skip(f"no device of {backend}")
    if backend == "model":
        check.evidence = Evidence.MODELLED
    done = console.run(f"npu-matmul test --quick --backend {backend}", 300)
    run = npu_matmul.parse(done.output)
    check.measure("products right", run.right, run.total, text=f"{run.right} of {run.total}")
    check.measure("evidence as the tool says", run.evidence or None)
    check.rests_on(*run.wrong)
    check.require(run.complete, f"npu-matmul broke off with status {done.status}: {done.line[-200:]}")
    check.require(run.right == run.total and (run.total or 0) > 0, f"wrong: {'; '.join(run.wrong[:3])}")
    if backend == "model" or bench_.evidence is not Evidence.HARDWARE:
        return  # an emulator's rates are the host's, and a model's mean nothing at all
    bench = console.run(f"npu-matmul bench --quick --json --backend {backend}", 300)
    for product in npu_matmul.parse(bench.output).products:
        if isinstance(rate := product.get("gflops"), float):
            check.rate(f"{product.get('type')} {product.get('what')}", [rate], "GFLOPS")


def test_chain(console: Console, check: Check) -> None:
    """llama-run: checkpoint to tokens, the same on the processor and on the NPU's model"""
    board.need(console, "llama-run")
    if console.run(f"test -f {SYNTHETIC}.bin").status != 0:
        pytest.skip(f"no {SYNTHETIC}.bin on the board")
    check.evidence = Evidence.MODELLED
    command = f"llama-run {SYNTHETIC}.bin -z {SYNTHETIC}.tokenizer.bin -t 0 -n 24 --weights fp16"
    told = {
        name: console.run(f"{command} --backend {name} 2>/dev/null | sha256sum", 300)
        for name in ("cpu", "model")
    }
    check.equal("text on the model, by SHA-256", told["model"].line, told["cpu"].line)
    done = console.run(f"{command} --backend cpu --json -", 300)
    run = tokens.llama(done.output)
    check.require(run.rate is not None, f"llama-run told no rate (status {done.status}): {done.line[-200:]}")
    check.measure("rate, not judged", run.rate, unit="tok/s")


def test_llama(console: Console, bench_: Bench, check: Check) -> None:
    """llama-run generates stories110M"""
    board.need(console, "llama-run")
    model = _model(console, "stories110M.bin")
    board.need_hardware(bench_, _EMULATED)
    against = board.conditions(console, check)
    rates = []
    for _ in range(3):
        done = console.run(f"llama-run {model} -z {MODELS}/tokenizer.bin -t 0 -n 128 --json -", 300)
        run = tokens.llama(done.output)
        check.require(
            run.rate is not None, f"llama-run told no rate (status {done.status}): {done.line[-200:]}"
        )
        rates.append(run.rate or 0.0)
    _judge(check, rates, "21 on the NPU, 9.7 on one CPU thread", against)


def test_llama2c(console: Console, bench_: Bench, check: Check) -> None:
    """llama2.c generates stories110M on one CPU thread"""
    board.need(console, "llama2c")
    model = _model(console, "stories110M.bin")
    board.need_hardware(bench_, _EMULATED)
    against = board.conditions(console, check)
    done = console.run(f"OMP_NUM_THREADS=1 llama2c {model} -z {MODELS}/tokenizer.bin -t 0 -n 128", 300)
    run = tokens.llama(done.output, "llama2.c")
    check.require(run.rate is not None, f"llama2.c told no rate (status {done.status}): {done.line[-200:]}")
    _judge(
        check, [r.tokens_per_second for r in run.rates], "9.7 (reference-results: fp32, one thread)", against
    )


@pytest.mark.parametrize("model", AX_MODELS)
def test_ax_run_model(model: str, console: Console, bench_: Bench, check: Check) -> None:
    """ax_run_model runs the vendor's {model}"""
    where = console.run("PATH=$PATH:/opt/bin; command -v ax_run_model")
    file = f"/opt/data/npu/models/{model}.axmodel"
    if where.status != 0 or console.run(f"test -f {file}").status != 0:
        pytest.skip(f"no ax_run_model, or no {file}: both are in the vendor's root")
    board.need_hardware(bench_, _EMULATED)
    against = board.conditions(console, check)
    counted = "echo 1 > /proc/ax_proc/npu/enable; {}; cat /proc/ax_proc/npu/top"
    done = console.run(counted.format(f"{where.line} -m {file} -w 10 -r 1000"), 300)
    run = ax_run_model.parse(done.output)
    check.rests_on(*(line for line in done.output.splitlines() if "avg" in line), *run.errors)
    check.require(not run.errors, "; ".join(run.errors[:2]))
    check.require(run.average is not None, f"ax_run_model told no time: {done.line[-200:]}")
    average = check.rate("average", [run.average or 0.0], "ms", f"{AX_MODELS[model]:g}", better="lower")
    check.headline()
    check.measure("median", run.median, unit="ms")
    for percent, milliseconds in run.percentiles.items():
        check.measure(f"{percent} % of runs", milliseconds, unit="ms")
    check.measure("CMM of the model", run.cmm, unit="B")
    check.measure("made for", run.kind or None)
    for core, percent in axera.npu_use(done.output).items():
        check.measure(f"{core} busy", percent, unit="%")
    if not against:
        check.require(average <= 2 * AX_MODELS[model], f"{average:g} ms, the vendor's {AX_MODELS[model]:g}")


@pytest.mark.parametrize(("runner", "command"), [
    ("ax-llm", "cd {models}/ax-llm && ./run.sh"), ("axllm", "cd {models}/axllm && axllm run ."),
    ("rknn-llm", "cd {models}/rknn-llm && RKLLM_LOG_LEVEL=1 ./llm_demo model.rkllm 64 256"),
])  # fmt: skip
def test_vendor_runner(runner: str, command: str, console: Console, bench_: Bench, check: Check) -> None:
    """{runner} answers a prompt"""
    if console.run(f"test -d {MODELS}/{runner}").status != 0:
        pytest.skip(f"no {MODELS}/{runner}: the vendor's runner and model are the user's")
    board.need_hardware(bench_, _EMULATED)
    against = board.conditions(console, check)
    feed = "(printf 'What is two and two?\\n'; sleep 60; printf 'q\\nexit\\n')"
    prompt = f"{feed} | ({command.format(models=MODELS)})"
    done = console.run(prompt, 300)
    run = tokens.rknn_llm(done.output) if runner == "rknn-llm" else tokens.ax_llm(done.output)
    check.rests_on(*(rate.line for rate in run.rates), *run.errors)
    if run.memory is not None:
        check.measure("memory" if runner == "rknn-llm" else "CMM left", run.memory, unit="B")
    check.require(
        run.rate is not None,
        f"{runner} told no rate: {'; '.join(run.errors[:2]) or done.line[-200:]}",
        hint=_too_old(runner, console),
    )
    _judge(check, [rate.tokens_per_second for rate in run.rates], None, against)


def _too_old(runner: str, console: Console) -> str | None:
    """What to do about it when the SDK is older than the runner takes."""
    oldest = OLDEST_SDK.get(runner)
    sdk = axera.version(console.run("cat /proc/ax_proc/version").output) if oldest else None
    if oldest is None or sdk is None or sdk.number >= oldest:
        return None
    return f"the board has the AX650 SDK {sdk.text}; {runner} needs V{'.'.join(map(str, oldest))} or later"


def _model(console: Console, name: str) -> str:
    if console.run(f"test -f {MODELS}/{name} -a -f {MODELS}/tokenizer.bin").status != 0:
        pytest.skip(f"no {MODELS}/{name} and tokenizer.bin on the board")
    return f"{MODELS}/{name}"


def _judge(check: Check, rates: list[float], reference: str | None, against: list[str]) -> None:
    rate = check.rate("decoding", rates, "tok/s", reference)
    check.headline()
    if not against:  # a throttled board is slow for a reason that is in the table
        check.require(rate >= SLOWEST, f"{rate:g} tok/s")
