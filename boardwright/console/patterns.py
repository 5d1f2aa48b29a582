"""What lines of a console mean: which stage they announce, which failure they are.

Wordings: kernel 6.12 and 7.3 (``kernel/panic.c``, ``init/do_mounts.c``, ``arch/arm64/kernel/traps.c``,
``arch/arm64/mm/fault.c``, ``kernel/hung_task.c``, ``mm/oom_kill.c``, ``kernel/rcu/tree_stall.h``),
U-Boot 2025.01 (``common/hang.c``, ``common/spl/spl.c``), TF-A's BL31, initramfs-tools, systemd 257.
Axera: U-Boot 2020.04 of the AX650 SDK (``cmd/axera/boot/axera_boot.c``, ``setup_boot.c``), the script of its
root that loads the vendor's modules (``auto_load_all_drv.sh``); what its ROM says without an image: Sipeed's
wiki, m4ndock/system-update.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from boardwright.console.matcher import LONGEST_MATCH, bounded, literals

__all__ = ["LONGEST_MATCH", "bounded", "literals"]


class Stage(enum.IntEnum):
    """Where the board is; only ever read from what the console says."""

    OFF = 0
    ROM = 1
    LOADER = 2
    KERNEL = 3
    LOGIN = 4
    SHELL = 5

    def __str__(self) -> str:
        return self.name.lower()


class Severity(enum.IntEnum):
    NOTE = 0
    """Explains a later failure, is none itself."""
    FAULT = 1
    """The product is faulty, but the boot may go on."""
    FATAL = 2
    """The boot cannot go on."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A line that means trouble: when (seconds since the console was opened), what, and the line."""

    name: str
    severity: Severity
    line: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name} at {self.seconds:.1f} s: {self.line}"


@dataclass(frozen=True, slots=True)
class _Failure:
    name: str
    severity: Severity
    pattern: re.Pattern[str]

    def may_match(self, line: str) -> bool:
        words = literals(self.pattern)
        return not words or any(word in line for word in words)


def _failures(severity: Severity, **named: str) -> list[_Failure]:
    return [_Failure(name.replace("_", " "), severity, bounded(text)) for name, text in named.items()]


_FAILURES = [
    *_failures(
        Severity.FATAL,
        root_not_mounted=r"VFS: Unable to mount root fs|Gave up waiting for root|"
        r"ALERT!.{0,120}(does not exist|not found)|"
        r"initramfs: root=.{0,120} did not appear|initramfs: .{0,80} cannot be mounted",
        init_not_found=r"No working init found|Requested init .{0,80} failed|"
        r"initramfs: there is no .{0,80} in the root",
        kernel_panic=r"Kernel panic - not syncing",
        # Not BusyBox's banner: a vendor's BusyBox root shows it as well, and here the prompt follows it.
        initramfs_shell=r"initramfs: this is a shell|^\(initramfs\)|Dropping to a shell",
        emergency_mode=r"You are in emergency mode|Entering emergency mode|Press Enter for maintenance|"
        r"Cannot open access to console, the root account is locked",
        no_login_on_the_console=r"Dependency failed for serial-getty",
        rom_found_no_image=r"VECFCFECFCF.{0,8}VECFC",
        image_refused_by_the_loader=r"image header verify failed|^invalid .{1,20} image|"
        r"^.{1,20} image verify failed|^public key verify failed",
        # Not the logo's partition, which may be missing: get_logo_from_emmc says it in the same words.
        loader_gave_up=r"Please RESET the board|SPL: failed to boot from all boot devices|"
        r"^### ERROR ### Please RESET|get (dtb|kernel|atf|optee)\w{0,4} partition info fail",
    ),
    *_failures(
        Severity.FAULT,
        oops=r"Internal error: (Oops|synchronous|undefined)|Unable to handle kernel |Internal error: ",
        system_error=r"SError Interrupt on CPU",
        kernel_bug=r"kernel BUG at |\bBUG: (?!soft lockup)",
        soft_lockup=r"BUG: soft lockup",
        hung_task=r"INFO: task .{1,60} blocked for more than \d{1,6} seconds",
        rcu_stall=r"rcu: INFO: rcu_\w{1,20} (self-)?detected (expedited )?stall",
        out_of_memory=r"Out of memory: Killed process|invoked oom-killer",
        kernel_warning=r"WARNING: (CPU: \d{1,4} PID: |.{1,100} at .{1,80}, CPU#)",
    ),
    *_failures(
        Severity.NOTE,
        no_root_device=r"VFS: Cannot open root device|Waiting for root device ",
        device_not_found=r"Timed out waiting for device ",
        unit_failed=r"^\[FAILED\] |Dependency failed for ",
        no_boot_device=r"no bootflow|No more bootdevs|\*\* Invalid partition|Unable to read file |"
        r"^get (mmc|nvme) dev fail",
    ),
]


TIMED_OUT = frozenset({"no login on the console", "device not found", "no root device"})
"""Failures that are only a clock running out: on an emulator whose host is busy they prove nothing."""


def classify(line: str, seconds: float = 0.0) -> Finding | None:
    """The first failure that a line tells of; failures that name a cause come before their consequences."""
    for failure in _FAILURES:
        if failure.may_match(line) and failure.pattern.search(line):
            return Finding(failure.name, failure.severity, line.strip(), seconds)
    return None


_MILESTONES: list[tuple[str, Stage, re.Pattern[str]]] = [
    ("ddr", Stage.LOADER, bounded(r"^DDR (V\d|[0-9a-f]{10} )|^U-Boot TPL \d{4}\.")),
    ("spl", Stage.LOADER, bounded(r"^U-Boot SPL \d{4}\.")),
    ("bl31", Stage.LOADER, bounded(r"^NOTICE: {1,3}BL31: v")),
    ("u-boot", Stage.LOADER, bounded(r"^U-Boot \d{4}\.\d\d")),
    (
        "autoboot",
        Stage.LOADER,
        bounded(r"^Hit any key to stop autoboot|^Autoboot in \d|^DRAM: {1,2}\d|^enter normal boot mode"),
    ),
    ("starting kernel", Stage.LOADER, bounded(r"^Starting kernel|^load kernel image addr")),
    (
        "kernel",
        Stage.KERNEL,
        bounded(r"^(\[.{1,16}\] )?(Booting Linux on physical CPU 0x|Linux version \d)"),
    ),
    ("systemd", Stage.KERNEL, bounded(r"systemd\[1\]: systemd \d{3}|^Welcome to ")),
    ("drivers", Stage.KERNEL, bounded(r"^run auto_load_all_drv\.sh start")),
    ("drivers loaded", Stage.KERNEL, bounded(r"^run auto_load_all_drv\.sh end")),
]
MILESTONES = tuple(name for name, _, _ in _MILESTONES)
"""In the order in which a board passes them; not every board shows every one."""


def milestone(line: str) -> tuple[str, Stage] | None:
    """The milestone a line announces, with the stage it belongs to."""
    for name, stage, pattern in _MILESTONES:
        if pattern.search(line):
            return name, stage
    return None


_WORDS = tuple(
    {word for p in (*(f.pattern for f in _FAILURES), *(p for _, _, p in _MILESTONES)) for word in literals(p)}
)


def may_matter(text: str) -> bool:
    """False when no line of ``text`` can be a failure or a milestone; far faster than looking at each."""
    return any(word in text for word in _WORDS)


LOGIN_PROMPT = bounded(r"(^|\n)[\w.-]{1,64} login: {0,2}\Z")
PASSWORD_PROMPT = bounded(r"(^|\n)Password: {0,2}\Z")
LOADER_WORD = r"(^|\n)([A-Z-]{0,20}=>|U-Boot>)"
"""U-Boot's prompt without what follows it."""
LOADER_PROMPT = bounded(rf"{LOADER_WORD} {{0,2}}\Z")
SHELL_PROMPT = bounded(r"(^|\n)[^\n]{0,100}[#$] {0,2}\Z")
