"""Every fault of a board or a cable, as a change to a script or to a cable, with the outcome it must have.

The fault list is that of docs/console.md and of its simulator; each row is played with every script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardwright.console.cable import BadCable, Faults
from boardwright.console.console import Console
from boardwright.console.errors import ConsoleLost
from boardwright.console.loader import Autoboot
from boardwright.console.reopening import ReopeningPort, stable
from boardwright.console.shell import Result
from boardwright.console.simulator import BoardPort, Script, ScriptedBoard
from boardwright.console.strategy import Strategy
from boardwright.console.transport import Port

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.yaml"))
SHELL = "shell"
CHATTER = ("[   41.0] usb 1-1: new high-speed USB device", "[   42.0] root@rock5b:~# ", "[   43.0] x login: ")


@dataclass(frozen=True, slots=True)
class Case:
    """``expected``: ``shell``, or the states that may be named."""

    expected: tuple[str, ...] = (SHELL,)
    change: Callable[[Script], Script] = lambda script: script
    cable: Faults = field(default_factory=Faults)
    silence: float = 120.0
    strategy: Strategy = field(default_factory=Strategy)
    password: str | None = None
    """What we log in with, when it is not the board's."""
    renamed: bool = False
    """The adapter goes away and comes back as another tty."""


STOPPED = ("version",)
"""Said to the loader, so that its countdown must be stopped."""


class RenamedAdapter:
    """``ttyUSB0``, which goes away after some reads and comes back as ``ttyUSB1``; its name below ``by-id``
    leads to whichever it is. Opened by a name that leads nowhere, it is lost."""

    def __init__(self, board: BoardPort, root: Path) -> None:
        self.board, self.root = board, root
        self.name, self.left, self.back_at = "ttyUSB0", 12, 0.0
        self.by_id = root / "by-id"
        self.by_id.mkdir()
        self.link = self.by_id / "usb-FTDI_FT232R_A1-if00-port0"
        self._plug()

    def port(self) -> Port:
        """As a user names it, by the tty of the day."""
        name = stable(str(self.root / self.name), self.by_id)
        return ReopeningPort(name, opener=self.open, clock=self.board.clock, sleep=self.sleep)

    def open(self, url: str, _baud: int) -> RenamedAdapter:
        if self.back_at and self.board.now >= self.back_at and self.name == "ttyUSB0":
            self.name = "ttyUSB1"
            self._plug()
        if Path(url).resolve().name != self.name or not Path(url).exists():
            raise ConsoleLost(f"{url} does not open")
        return self

    def read(self, seconds: float) -> bytes:
        self.left -= 1
        if self.left == 0:
            (self.root / self.name).unlink()
            self.back_at = self.board.now + 2.0
            raise ConsoleLost("the serial port went away: unplugged")
        return self.board.read(seconds)

    def write(self, data: bytes) -> None:
        self.board.write(data)

    def close(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        self.board.now += max(seconds, 0.01)

    def _plug(self) -> None:
        (self.root / self.name).touch()
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(self.root / self.name)


def kernel_at(script: Script) -> int:
    return next(i for i, (_, text) in enumerate(script.boot) if "Booting Linux" in text)


def after_kernel(*lines: str, until: bool = False) -> Callable[[Script], Script]:
    """These lines once the kernel runs; ``until``: the boot goes on after them."""

    def change(script: Script) -> Script:
        at = kernel_at(script) + 1
        said = tuple((0.2, f"{line}\n") for line in lines)
        rest = script.boot[at:] if until else ()
        return replace(script, boot=(*script.boot[:at], *said, *rest), reaches_shell=until)

    return change


def again(times: int, *lines: str) -> Callable[[Script], Script]:
    """The whole boot ``times`` more, from its first line, after the kernel came up."""

    def change(script: Script) -> Script:
        assert script.loader is not None
        head = script.boot[: kernel_at(script) + 1]
        first = (*head, *((0.1, f"{line}\n") for line in lines))
        return replace(script, boot=(*first, *(first * (times - 1)), *script.boot), reaches_shell=True)

    return change


def loader(**change: object) -> Callable[[Script], Script]:
    def changed(script: Script) -> Script:
        assert script.loader is not None
        return replace(script, loader=replace(script.loader, **change))  # type: ignore[arg-type]

    return changed


def only(*texts: str) -> Callable[[Script], Script]:
    return lambda script: replace(
        script, boot=tuple((0.3, text) for text in texts), loader=None, reaches_shell=False
    )


def multibyte(script: Script) -> Script:
    """Letters of two, three and four bytes in the log and in an answer."""
    said = after_kernel("[    2.0] Größe: 5 µs → ✓ 𝄞", until=True)(script)
    return replace(said, answers={**script.answers, "cat /etc/motd": Result("grüße → ✓ 𝄞\n", 0)})


def carriage_returns(script: Script) -> Script:
    """CR LF CR, as drivers send that translate twice."""
    return replace(script, boot=tuple((t, text.replace("\n", "\r\n\r")) for t, text in script.boot))


CASES: dict[str, Case] = {
    "no fault": Case(),
    # the cable
    "drop 0.1 %": Case(cable=Faults(drop=0.001)),
    "drop 1 %": Case(cable=Faults(drop=0.01)),
    "bursts of losses": Case(cable=Faults(burst=0.0005)),
    "double 0.1 %": Case(cable=Faults(double=0.001)),
    "flip 0.1 %": Case(cable=Faults(flip=0.001)),
    "reads of one byte": Case(cable=Faults(largest_read=1)),
    "split UTF-8": Case(change=multibyte, cable=Faults(largest_read=1)),
    "stalls": Case(cable=Faults(stall=0.3)),
    "vanishes and returns": Case(cable=Faults(lost_after=700, away=3.0)),
    "returns under another tty name": Case(renamed=True),
    "vanishes": Case(("port lost",), cable=Faults(lost_after=700)),
    "a second reader": Case((SHELL, "garbled", "console unusable", "slow"), cable=Faults(stolen=0.5)),
    "wrong baud": Case(("wrong baud",), cable=Faults(baud=(1500000, 115200))),
    "wrong baud, slower sender": Case(("wrong baud",), cable=Faults(baud=(115200, 1500000))),
    "no cable": Case(("off",), change=only()),
    # the loader
    "autoboot 0 s": Case(change=loader(seconds=0)),
    "autoboot 0 s, to be stopped": Case(
        ("autoboot not stopped",), change=loader(seconds=0), strategy=Strategy(commands=STOPPED)
    ),
    "autoboot to be stopped": Case(strategy=Strategy(commands=STOPPED)),
    "abort key ignored once": Case(change=loader(deaf_for=1), strategy=Strategy(commands=STOPPED)),
    "autoboot with words of its own": Case(
        change=loader(countdown="Press ctrl-c to stop in", stop="\x03"),
        strategy=Strategy(Autoboot(stop="ctrl-c"), STOPPED),
    ),
    "autoboot that says nothing": Case(change=loader(countdown=""), strategy=Strategy(commands=STOPPED)),
    "autoboot with a password": Case(
        change=loader(countdown="Enter password in", stop="sesame"),
        strategy=Strategy(Autoboot(password="sesame"), STOPPED),
    ),
    "autoboot with a password not known": Case(
        ("autoboot not stopped",), change=loader(stop="sesame"), strategy=Strategy(commands=STOPPED)
    ),
    "loader at its prompt already": Case(change=loader(seconds=-1)),
    "loader at its prompt already, to be told more": Case(
        change=loader(seconds=-1), strategy=Strategy(commands=STOPPED)
    ),
    "loader's command fails": Case(
        ("loader command failed",),
        change=loader(failing={"version": "** Bad device mmc 1 **\n"}),
        strategy=Strategy(commands=STOPPED),
    ),
    "boot script with bootargs of its own": Case(
        ("bootargs not taken",),
        change=loader(append="root=PARTUUID=1-2 quiet"),
        strategy=Strategy(bootargs="root=/dev/mmcblk1p2 rw"),
    ),
    "loader without a boot device": Case(
        ("loader prompt",),
        change=only("\nU-Boot 2025.01 (x)\nDRAM:  8 GiB\n", "** Unable to read file /Image **\n=> "),
    ),
    "stops in SPL": Case(
        ("loader gave up",),
        change=only("\nU-Boot SPL 2025.01 (x)\n", "SPL: failed to boot from all boot devices\n"),
    ),
    "please reset": Case(
        ("loader gave up",),
        change=only("\nU-Boot 2025.01 (x)\n", "### ERROR ### Please RESET the board ###\n"),
    ),
    "loops in SPL": Case(("boot loop",), change=only(*["\nU-Boot SPL 2025.01 (x)\nTrying MMC1\n"] * 8)),
    "stops in the DRAM code": Case(
        ("silent after ddr",), change=only("DDR 9fa84341ce typ 24/09/06-09:51:11,fwver: v1.18\n")
    ),
    "ROM without an image": Case(("rom found no image",), change=only("VECFCFECFCF" * 6)),
    "loader refuses an image": Case(
        ("image refused by the loader",),
        change=only("\nU-Boot 2020.04 (x)\nDRAM:  2 GiB\n", "kernel image header verify failed\n"),
    ),
    "loader wants a signed image": Case(
        ("image refused by the loader",),
        change=only("\nU-Boot 2020.04 (x)\nDRAM:  2 GiB\n", "invalid kernel image\nAXERA-UBOOT=>"),
    ),
    "loader misses a partition": Case(
        ("loader gave up",),
        change=only(
            "\nU-Boot 2020.04 (x)\nDRAM:  2 GiB\n",
            "get_logo_from_emmc: get logo partition info fail\n",
            "get_boot_image_emmc: get dtb partition info fail\n",
        ),
    ),
    "loader sees no eMMC": Case(
        ("loader prompt",),
        change=only("\nU-Boot 2020.04 (x)\nDRAM:  2 GiB\n", "get mmc dev fail\nAXERA-UBOOT=>"),
    ),
    "silent after starting kernel": Case(
        ("silent after starting kernel", "silent after bl31"),
        change=lambda s: replace(s, boot=s.boot[: kernel_at(s)], reaches_shell=False),
    ),
    # the kernel
    "panic": Case(
        ("kernel panic",),
        change=after_kernel("[    2.0] Kernel panic - not syncing: Attempted to kill init!"),
    ),
    "oops": Case(
        ("oops",),
        change=after_kernel(
            "[    2.0] Internal error: Oops: 0000000096000004 [#1] SMP",
            "[    2.1] Kernel panic - not syncing: Oops: Fatal exception",
        ),
    ),
    "hung task": Case(
        ("hung task",),
        change=after_kernel("[  242.0] INFO: task swapper/0:1 blocked for more than 120 seconds."),
    ),
    "out of memory": Case(
        ("out of memory",), change=after_kernel("[   90.0] Out of memory: Killed process 1 (systemd)")
    ),
    "SError": Case(
        ("system error",),
        change=after_kernel(
            "[    5.0] SError Interrupt on CPU2, code 0x00000000be000011 -- SError",
            "[    5.1] Kernel panic - not syncing: Asynchronous SError Interrupt",
        ),
    ),
    "kernel bug": Case(
        ("kernel bug",),
        change=after_kernel(
            "[    5.0] kernel BUG at mm/slub.c:563!",
            "[    5.1] Internal error: Oops - BUG: 00000000f2000800 [#1] SMP",
            "[    5.2] Kernel panic - not syncing: Oops - BUG: Fatal exception",
        ),
    ),
    "soft lockup": Case(
        ("soft lockup",),
        change=after_kernel("[   48.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [modprobe:121]"),
    ),
    "RCU stall": Case(
        ("rcu stall",), change=after_kernel("[   26.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:")
    ),
    "root not mounted": Case(
        ("root not mounted",),
        change=after_kernel(
            '[    2.0] VFS: Cannot open root device "PARTUUID=12" or unknown-block(0,0): error -6',
            "[    2.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
        ),
    ),
    "waits for its root": Case(
        ("silent after kernel",), change=after_kernel("[    1.9] Waiting for root device PARTUUID=0b0b...")
    ),
    "no init": Case(
        ("init not found",),
        change=after_kernel("[    2.0] Kernel panic - not syncing: No working init found."),
    ),
    "drivers never load": Case(
        ("silent after drivers",), change=after_kernel("run auto_load_all_drv.sh start")
    ),
    "no getty": Case(
        ("no login on the console",),
        change=after_kernel("[DEPEND] Dependency failed for serial-getty@ttyS2.service - Serial Getty."),
    ),
    "initramfs shell": Case(
        ("root not mounted",),
        change=after_kernel("Gave up waiting for root file system device.", "(initramfs) "),
    ),
    "emergency mode": Case(
        ("emergency mode",),
        change=after_kernel('You are in emergency mode. After logging in, type "journalctl"'),
    ),
    "watchdog reset": Case(("unexpected reset",), change=again(1)),
    "boot loop": Case(("boot loop",), change=again(3)),
    "panic and loop": Case(
        ("kernel panic",), change=again(3, "[    2.0] Kernel panic - not syncing: Attempted to kill init!")
    ),
    "silent kernel": Case(("silent after kernel",), change=after_kernel("[    2.0] random: crng init done")),
    # login and shell
    "prompt inside the log": Case(change=after_kernel("[    5.0] x: root@rock5b:~# ", until=True)),
    "kernel lines inside prompts": Case(change=lambda s: replace(s, chatter=CHATTER)),
    "escape sequences": Case(change=lambda s: replace(s, escapes=True)),
    "CR LF CR": Case(change=carriage_returns),
    "no echo": Case(change=lambda s: replace(s, echo=False)),
    "login flushes its input": Case(change=lambda s: replace(s, autologin=False, login_flush=True)),
    "echo with a lost byte": Case(change=lambda s: replace(s, echo_loses=211)),
    "LF alone": Case(change=lambda s: replace(s, newline="\n")),
    "LF CR": Case(change=lambda s: replace(s, newline="\n\r")),
    "password not known": Case(
        ("login refused",),
        change=lambda s: replace(s, autologin=False, password="hunter2"),
        password="wrong",
    ),
    "resets under a command": Case(
        ("reset under test",), change=lambda s: replace(s, resets={"uname -r": ""})
    ),
    "panics under a command": Case(
        ("kernel panic",),
        change=lambda s: replace(
            s, deadly={"uname -r": "\n[   99.0] Kernel panic - not syncing: Fatal exception in interrupt\n"}
        ),
    ),
    "up already": Case(change=lambda s: replace(s, boot=(), loader=None)),
}


def cable(
    script: Script, case: Case, seed: int = 1, root: Path | None = None
) -> tuple[Port, Callable[[], float]]:
    """A port to the changed board behind the bad cable, and its clock: simulated time.

    ``root``: an empty directory, for a case whose adapter is renamed.
    """
    board = BoardPort(ScriptedBoard(case.change(script)))
    if case.renamed:
        assert root is not None
        return RenamedAdapter(board, root).port(), board.clock
    return BadCable(board, case.cable, seed, board.clock), board.clock


def console(
    script: Script, case: Case, seed: int = 1, root: Path | None = None, **options: object
) -> Console:
    """A console on the changed board behind the bad cable, in simulated time."""
    changed = case.change(script)
    port, clock = cable(script, case, seed, root)
    return Console(
        port,
        clock=clock,
        user=changed.user,
        password=case.password or changed.password,
        silence=case.silence,
        **options,  # type: ignore[arg-type]
    )
