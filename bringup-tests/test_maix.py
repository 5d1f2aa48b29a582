"""A board without a partition table whose NPU has memory of its own: the Maix-IV (AX650N).

On the emulated board stand-ins take the place of AXERA's modules, run-time and runner (native/ax-standin);
what they say is modelled, and so is such a check's evidence. On a real board the vendor's are asked.
"""

from __future__ import annotations

import pytest

from boardwright.bringup import board
from boardwright.bringup.bench import Bench
from boardwright.bringup.parsers import memory, npu_matmul, storage, tokens
from boardwright.bringup.plugin import Check
from boardwright.console.console import Console
from boardwright.image import names
from boardwright.layout import partitions, split_rules
from boardwright.layout.extents import PlacedPartition, Table
from boardwright.layout.split import Split
from boardwright.results.outcome import Evidence

STANDIN = "test -f /soc/README && grep -q 'Stand-ins of boardwright' /soc/README"
KERNEL_SHARE = 0.93
"""Of ``mem=`` that the kernel must at least give to the system: its own code, page tables and CMA apart."""
LIBRARIES = ("/soc/lib/libax_sys.so", "/soc/lib/libax_engine.so")


@pytest.fixture
def table(bench_: Bench) -> Table:
    """The board file's partitions; other boards' checks are in test_system.py."""
    if not names.has_no_table(bench_.board):
        pytest.skip("this board's disk has a partition table")
    return partitions.resolve(bench_.board.disk, bench_.board.partitions)


@pytest.fixture
def standin(console: Console, check: Check, table: Table) -> bool:  # noqa: ARG001
    """Whether stand-ins answer, which makes the check's evidence weaker."""
    found = console.run(STANDIN).status == 0
    if found:
        check.evidence = Evidence.MODELLED
    return found


def test_linux_memory(table: Table, console: Console, bench_: Bench, check: Check) -> None:  # noqa: ARG001
    """Linux has the memory that the board file gives it"""
    wanted = _split(bench_).linux
    mem = memory.mem_argument(console.run("cat /proc/cmdline").line)
    total = memory.meminfo(console.run("cat /proc/meminfo").output).get("MemTotal", 0)
    shown = f"{total // 2**20} MiB of mem={(mem or 0) // 2**20}M"
    check.measure("MemTotal", total, wanted, text=shown, unit="B")
    check.require(mem == wanted, f"mem=: expected {wanted} bytes as the board file says, found {mem}")
    check.require(
        KERNEL_SHARE * wanted <= total <= wanted,
        f"MemTotal: expected {KERNEL_SHARE:.0%} to 100% of {wanted} bytes, found {total}",
        hint="has the board, or the emulator, less memory than mem= says?",
    )


def test_cmm_pools(standin: bool, console: Console, bench_: Bench, check: Check) -> None:
    """CMM has the pools that the board file gives it, behind Linux"""
    shown = console.run("cat /proc/ax_proc/mem_cmm_info")
    check.require(
        shown.status == 0,
        f"no CMM: {shown.line}",
        hint="systemctl status ax650-drivers: the vendor's modules are in the partition soc",
    )
    found = memory.cmm(shown.output)
    check.require(found is not None, "mem_cmm_info has no line of totals")
    assert found is not None
    wanted = _split(bench_).pools
    check.measure(
        "CMM", found.total, sum(p.size for p in wanted), text=f"{found.total // 2**20} MiB", unit="B"
    )
    check.measure("firmware: CMM", found.version or None)
    check.require("modelled" in found.version or not standin, "the stand-in does not say what it is")
    mem = memory.mem_argument(console.run("cat /proc/cmdline").line)
    problems = [*found.problems(), *(memory.overlaps(mem, found.pools) if mem is not None else [])]
    problems += [
        f"expected a pool at 0x{want.offset:x} of {want.size} bytes, found "
        + (", ".join(f"0x{p.start:x} of {p.size}" for p in found.pools) or "none")
        for want in wanted
        if (want.offset, want.size) not in {(p.start, p.size) for p in found.pools}
    ]
    check.require(not problems, "; ".join(problems))


def test_partitions(table: Table, console: Console, check: Check) -> None:
    """partitions are those of the board file, by name, place and size"""
    device = table.device or ""
    fields = "cat $p/partition $p/start $p/size; sed -n s/^PARTNAME=//p $p/uevent"
    command = f"for p in /sys/class/block/{device}p*; do echo $({fields}); done"
    found = {}
    for line in console.run(command).output.splitlines():
        number, start, size, *name = line.split()
        found[int(number)] = (" ".join(name), int(start) * 512, int(size) * 512)
    shown = " ".join(found[number][0] for number in sorted(found))
    check.measure("partitions", shown, " ".join(p.name for p in table.partitions))
    wanted = {p.number: (p.name, p.offset, p.size) for p in table.partitions}
    wrong = [
        f"{table.path(p)}: expected {p.name} of {p.size} bytes at {p.offset}, found {found.get(p.number)}"
        for p in table.partitions
        if found.get(p.number) != wanted[p.number]
    ]
    wrong += [
        f"p{number}: expected none, found {found[number]}" for number in sorted(found.keys() - wanted.keys())
    ]
    check.require(not wrong, "; ".join(wrong[:3]))
    told = storage.blkdevparts(console.run("cat /proc/cmdline").line).get(device, [])
    check.require(
        len(told) == len(wanted), f"blkdevparts=: expected {len(wanted)} partitions, found {len(told)}"
    )


def test_mounts(table: Table, console: Console, check: Check) -> None:
    """every partition is mounted where the board file says"""
    mounted = _mounted(table)
    found = {p.mount: console.run(f"findmnt -no SOURCE,FSTYPE {p.mount}").line.split() for p in mounted}
    check.measure("mounts", " ".join(f"{at}={words[0] if words else 'none'}" for at, words in found.items()))
    wrong = [
        f"{p.mount}: expected {table.path(p)} ext4, found {' '.join(found[p.mount]) or 'nothing'}"
        for p in mounted
        if found[p.mount] != [table.path(p), "ext4"]
    ]
    check.require(not wrong, "; ".join(wrong), hint="systemctl status local-fs.target")


def test_grown(table: Table, console: Console, check: Check) -> None:
    """file systems that the board file lets grow fill their partitions"""
    wrong = []
    for p in [p for p in _mounted(table) if p.grow]:
        blocks = console.run(f"stat -fc '%b %S' {p.mount}").line.split()
        usable = int(blocks[0]) * int(blocks[1])
        text = f"{usable // 2**20} of {p.size // 2**20} MiB"
        check.measure(f"{p.mount} share of its partition", round(usable / p.size, 3), ">= 0.9", text=text)
        if usable < 0.9 * p.size:
            wrong.append(f"{p.mount}: {text}")
    check.require(not wrong, "; ".join(wrong), hint="did the first boot grow the file systems?")


def test_npu_chain(standin: bool, console: Console, check: Check) -> None:
    """drivers, run-time and models of /soc and /opt multiply matrices right"""
    board.need(console, "npu-matmul")
    driver = console.run("systemctl is-active ax650-drivers.service").line
    check.require(driver == "active", f"ax650-drivers.service: expected active, found {driver}")
    for library in LIBRARIES:
        check.require(console.run(f"test -e {library}").status == 0, f"no {library}")
    done = console.run("npu-matmul test --quick --backend axengine", 300)
    run = npu_matmul.parse(done.output)
    check.measure("products right", run.right, run.total, text=f"{run.right} of {run.total}")
    check.headline()
    check.measure("evidence as the tool says", run.evidence or None)
    check.rests_on(*run.wrong)
    check.require(run.complete, f"npu-matmul broke off with status {done.status}: {done.line[-200:]}")
    check.require(run.right == run.total and (run.total or 0) > 0, f"wrong: {'; '.join(run.wrong[:3])}")
    check.require(run.evidence == ("emulated" if standin else "hardware"), f"the tool says {run.evidence!r}")


@pytest.mark.parametrize(("runner", "rates"), [("ax-llm", [4.5, 4.42]), ("axllm", [15.71])])
def test_token_rates(runner: str, rates: list[float], standin: bool, console: Console, check: Check) -> None:
    """token rates in the words of {runner} are read off the console"""
    if not standin:
        pytest.skip("the words of a stand-in with known rates; on a board the runner's own: test_npu.py")
    done = console.run(f"/opt/boardwright/{runner}-says")
    check.require(done.status == 0, f"/opt/boardwright/{runner}-says: {done.line}")
    run = tokens.ax_llm(done.output)
    found = [rate.tokens_per_second for rate in run.rates]
    check.measure("token/s", str(found), str(rates))
    check.rests_on(*(rate.line for rate in run.rates))
    check.require(found == rates, f"expected {rates} token/s, found {found}")


def _split(bench: Bench) -> Split:
    found = split_rules.resolve(bench.board.memory)
    if found is None:
        pytest.skip("the board file splits no memory")
    return found


def _mounted(table: Table) -> list[PlacedPartition]:
    return [p for p in table.partitions if p.mount]
