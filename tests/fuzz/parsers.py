"""Every parser as one function of bytes, for hypothesis and for atheris."""

from __future__ import annotations

from collections.abc import Callable

from boardwright.bringup.parsers import (
    amdgpu,
    ax_run_model,
    axera,
    boot_time,
    chips,
    clocks,
    dmesg,
    glmark2,
    kernel_log,
    kmscube,
    memory,
    modetest,
    network,
    npu_matmul,
    pci,
    provenance,
    radeon,
    storage,
    tokens,
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _radeon(data: bytes) -> object:
    report = radeon.parse(data, parameters=data)
    return report.problems(), radeon.video_lost(report), [t.explanation for t in report.rings.values()]


def _amdgpu(data: bytes) -> object:
    return amdgpu.parse(data, data).problems()


def _glmark2(data: bytes) -> object:
    run = glmark2.parse(data)
    return glmark2.compare(run), run.stopped_in


def _kmscube(data: bytes) -> object:
    run = kmscube.parse(data)
    return run.rate, run.rates, run.is_software


def _memory(data: bytes) -> object:
    found = memory.cmm(data)
    split = memory.pools(_text(data))
    return found and found.problems(), memory.overlaps(memory.mem_argument(_text(data)) or 0, split)


def _provenance(data: bytes) -> object:
    loader = provenance.parse(data)
    return loader.medium, provenance.differs(loader, "2025.01")


PARSERS: dict[str, Callable[[bytes], object]] = {
    "amdgpu": _amdgpu,
    "ax_run_model": ax_run_model.parse,
    "axera": lambda data: (axera.version(data), axera.npu_use(data)),
    "boot_time": boot_time.systemd,
    "chips": lambda data: [c.rings for c in chips.detect(dmesg.messages(data))],
    "clocks": lambda data: clocks.parse(data).problems(),
    "glmark2": _glmark2,
    "kernel_log": lambda data: (kernel_log.levels(data), kernel_log.alignment_faults(data)),
    "kmscube": _kmscube,
    "memory": _memory,
    "meminfo": memory.meminfo,
    "modetest": lambda data: modetest.parse(data).connected,
    "network": lambda data: network.interfaces(data, data),
    "npu_matmul": lambda data: npu_matmul.parse(data).rates(),
    "pci": lambda data: (pci.assignments(data), pci.silent_ports(data)),
    "lspci": lambda data: [d.unassigned for d in pci.lspci(data)],
    "provenance": _provenance,
    "radeon": _radeon,
    "storage": lambda data: (storage.lsblk(data), storage.dd_rate(data), storage.blkdevparts(_text(data))),
    "tokens ax": lambda data: tokens.ax_llm(data).rate,
    "tokens llama": lambda data: tokens.llama(data).rate,
    "tokens rknn": lambda data: tokens.rknn_llm(data).rate,
}
