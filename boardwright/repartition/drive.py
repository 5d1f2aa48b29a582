"""A board repartitioned over its console: U-Boot stopped, the stick started once, the executor watched, a
check.

On the host; not part of what runs on the board. Nothing is saved in U-Boot: its environment is written by the
executor, as the plan says.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boardwright.console import transfer
from boardwright.console.budget import Budget
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed
from boardwright.console.loader import Autoboot, interrupt
from boardwright.console.strategy import check_bootargs
from boardwright.errors import InputError, ProductError
from boardwright.layout import loadscript
from boardwright.layout.split import Split
from boardwright.repartition import parts
from boardwright.repartition.parts import Refused
from boardwright.repartition.ubootenv import memory_of, one_shot

INIT = "/usr/lib/boardwright/rescue-init"
_PROGRAM = "python3 -m repartition"
_LOG, _STATUS = "/run/repartition.log", "/run/repartition.status"
_RESTART = "sync; mount -o remount,ro /; python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x01234567)'"
_POLL = 5.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Job:
    """``to``: the new layout as blkdevparts, of ``device`` (``mmcblk0``). ``stick_root``: the stick's
    ``root=``.

    ``root``, ``mem``: the new ``root=`` and ``mem=``; empty: as they are.
    """

    to: str
    stick_root: str
    device: str = "mmcblk0"
    root: str = ""
    mem: str = ""
    format: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()

    def words(self) -> str:
        """The arguments of ``plan`` and ``run``."""
        words = ["--to", self.to, "--name", self.device, "--stick-root", self.stick_root]
        words += ["--root", self.root] if self.root else []
        words += ["--mem", self.mem] if self.mem else []
        for option, names in (("--format", self.format), ("--delete", self.delete)):
            for name in names:
                words += [option, name]
        return shlex.join(words)


def to_rescue(console: Console, job: Job, budget: float, autoboot: Autoboot | None = None) -> None:
    """Have the rescue system's shell within ``budget`` seconds, which begin at power-on.

    Raises what :func:`~boardwright.console.loader.interrupt` and :meth:`Console.boot` raise, and
    ``BoardFailed`` when the kernel did not get the bootargs.
    """
    shared = Budget(budget, console.channel.clock)
    loader = interrupt(console, shared.left, autoboot)
    bootargs = loader.environment("bootargs")
    if bootargs is None:
        raise ProductError(
            "U-Boot has no bootargs, so nobody knows the layout",
            hint="type `saveenv` at its prompt, which writes down its compiled-in ones, and begin again",
        )
    try:
        once = one_shot(bootargs, job.stick_root, INIT)
    except Refused as refused:
        raise ProductError(refused.message, hint=refused.hint or None) from refused
    loader.boot(once)
    console.boot(shared.left)
    check_bootargs(console, f"root={job.stick_root} init={INIT}")


def ask(console: Console, words: str, seconds: float = 300.0) -> str:
    """What the program on the stick prints. Raises ``InputError`` with its own words when it refuses."""
    result = console.run(f"{_PROGRAM} {words}", seconds)
    if result.status != 0:
        raise _said(result.output, result.status)
    return result.output


def settle(console: Console, job: Job, say: Say) -> None:
    """Replay the journals that a start of the board's own system would replay."""
    for line in ask(console, f"settle --name {job.device}", 900).splitlines():
        say(line)


def plan(console: Console, job: Job) -> tuple[str, dict[str, Any]]:
    """The plan as text and as JSON; nothing is changed."""
    text = ask(console, f"plan {job.words()}")
    found: dict[str, Any] = json.loads(ask(console, f"plan --json {job.words()}"))
    return text, found


def interrupted(console: Console) -> str:
    """What was interrupted, in the words of the program, or nothing."""
    said = ask(console, "status").strip()
    return "" if said.startswith("nothing") else said


def carry_out(console: Console, words: str, seconds: float, say: Say) -> None:
    """``run`` or ``resume`` beside the shell, so that a lost console does not stop it; its lines as they
    come.

    ``seconds``: how long it may take. Raises ``InputError`` when it refuses, ``ProductError`` when it takes
    longer: it goes on then, and so it does after a power cut.
    """
    command = f"{_PROGRAM} {words} >{_LOG} 2>&1; echo $? >{_STATUS}"
    console.run(f"rm -f {_STATUS}; setsid sh -c {shlex.quote(command)} </dev/null >/dev/null 2>&1 &", 60)
    heard, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        console.channel.listen(_POLL)
        lines = console.run(f"tail -n +{heard + 1} {_LOG} 2>/dev/null; true", 60).output.splitlines()
        for line in lines:
            say(f"  {line}")
        heard += len(lines)
        status = console.run(f"cat {_STATUS} 2>/dev/null; true", 60).line
        if status:
            if status != "0":
                raise _said("\n".join(lines), int(status))
            return
    raise ProductError(
        f"the rescue system is still at work after {seconds:.0f} s",
        hint="leave it on; it ends by itself, and its journal outlasts a power cut",
    )


def restart(console: Console, command: str = _RESTART) -> None:
    """Reboot, from the rescue system if nothing else is said; what is heard from now on is a start of its
    own."""
    console.channel.write(f"{command}\n")
    console.channel.settle(1.0, 5.0)
    console.channel.discard()
    console.watch.restart()


def check(console: Console, job: Job, planned: dict[str, Any], say: Say) -> None:
    """At the board's own shell: the layout and memory it runs with, and what was left to grow. Raises
    ``ProductError``."""
    answer = console.run("cat /proc/cmdline")
    try:
        found, mem = parts.of_bootargs(answer.output), memory_of(answer.output)
    except Refused as refused:
        raise ProductError(f"the kernel's command line: {refused.message}") from refused
    if found != job.to:
        raise BoardFailed(
            f"the board runs with the layout {found!r}, expected {job.to!r}",
            state="not as planned",
            lines=(),
        )
    if job.mem and mem != job.mem:
        raise BoardFailed(
            f"the board runs with mem={mem}, expected {job.mem}", state="not as planned", lines=()
        )
    say("the board runs with the new layout")
    numbers = {name: n for n, name in enumerate(_names(job.to), start=1)}
    for operation in planned["operations"]:
        if operation["kind"] == "grow":
            grow(console, f"/dev/{job.device}p{numbers[operation['name']]}")
            say(f"{operation['name']} is grown")


def grow(console: Console, path: str) -> None:
    """At the board's own shell: an ext4 to its partition's end, mounted or not. Raises ``ProductError``."""
    # Mounted or not is told by the device's number: the root's name may be /dev/root (proc_pid_mountinfo(5)).
    # resize2fs(8) wants e2fsck before it for what is not mounted; e2fsck(8): 1 is what was mended.
    number = f"$(cat /sys/class/block/{path.rpartition('/')[2]}/dev 2>/dev/null || echo none)"
    checked = f'grep -q " {number} " /proc/self/mountinfo || e2fsck -f -p {path} || test $? = 1'
    result = console.run(f"{{ {checked}; }} 2>&1 && resize2fs {path} 2>&1", 900)
    if result.status != 0:
        raise ProductError(
            f"resize2fs {path} ended with {result.status}: {result.output.strip()[-200:]}",
            hint="the layout is in place; type the command again once the board can do it",
        )


def set_pools(console: Console, split: Split, say: Say, path: str = loadscript.PATH) -> bool:
    """At the board's own shell: have the load script name the pools of ``split``; whether that took a change,
    which counts from the next start on.

    The script is replaced as a whole, with its owner and mode. Raises ``InputError`` for a script that does
    not load the driver with plain pools, ``ProductError`` when the board cannot write it.
    """
    if console.run(f"test -f {path}").status:
        say(f"there is no {path} on this board: no pool was changed")
        return False
    before = transfer.pull(console, path).decode("utf-8", "surrogateescape")
    after = loadscript.edited(before, split)
    if after == before:
        return False
    data = after.encode("utf-8", "surrogateescape")
    transfer.push(console, data, f"{path}.new")
    whole = f"cp -p {path} {path}.set && cat {path}.new >{path}.set && rm {path}.new && sync"
    done = console.run(f"{whole} && mv {path}.set {path} && sync", 120)
    if done.status or transfer.pull(console, path) != data:
        raise ProductError(
            f"{path} was not written: {done.output.strip()[-200:] or 'it reads otherwise'}",
            hint=f"mem={split.mem} is set, so nothing overlaps; write cmmpool={split.cmmpool} there by hand",
        )
    say(f"{path} names cmmpool={split.cmmpool}")
    return True


def _names(layout: str) -> list[str]:
    return [entry.partition("(")[2].rstrip(")") for entry in layout.split(",")]


def _said(output: str, status: int) -> InputError | ProductError:
    """The program's ``error:`` and ``hint:`` lines as an error of ours."""
    lines = output.strip().splitlines()
    message = next((line[7:] for line in lines if line.startswith("error: ")), "; ".join(lines[-3:]))
    hint = next((line[6:] for line in lines if line.startswith("hint: ")), None)
    if status == 1:
        return InputError(message, hint=hint)
    return ProductError(f"the rescue system's program ended with {status}: {message}", hint=hint)
