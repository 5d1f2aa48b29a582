"""U-Boot's prompt: stopping the countdown, commands with checks, and one boot with other bootargs.

The countdown may print nothing, print before the window opens, or miss the first key
(github.com/labgrid-project/labgrid/pull/870), so the key is sent again and again until the prompt or the end
of the budget. Nothing is saved: ``setenv`` without ``saveenv`` lasts for one boot (U-Boot ``cmd/nvedit.c``).
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from boardwright.console.budget import Budget
from boardwright.console.console import Console
from boardwright.console.errors import BoardFailed, ConsoleError
from boardwright.console.matcher import bounded
from boardwright.console.patterns import LOADER_PROMPT, LOADER_WORD, Stage
from boardwright.console.typist import CTRL_C, Typist

KEYS = {"enter": "\r", "space": " ", "escape": "\x1b", "ctrl-c": CTRL_C, "tab": "\t"}
"""Keys by name: ``\\x03`` in a file would be sent as four characters (labgrid issue 1622)."""
_RATE = 0.1
"""Seconds between two keys: a window of one second is met ten times."""
_PROMPT_QUIET = 0.3
_WAITED, _TAIL = 256, 300
"""Keys that a receiver holds at most (DesignWare's 8250 has up to 256); characters that show them all."""
_READS = 8
_STATUS = bounded(r"(^|\n)bw-(\d{1,6})-(0|1)\n")
_UNKNOWN = "Unknown command"


@dataclass(frozen=True, slots=True)
class Autoboot:
    """How the countdown is stopped: a key of :data:`KEYS` or a text; ``password`` ends it where one is set.

    U-Boot with ``CONFIG_AUTOBOOT_KEYED`` wants a text of its own and shows no countdown by number.
    """

    stop: str = "space"
    password: str | None = None

    @property
    def keys(self) -> str:
        return KEYS.get(self.stop, self.stop) if self.password is None else self.password


def interrupt(console: Console, budget: float, autoboot: Autoboot | None = None) -> Loader:
    """Have the loader at its prompt within ``budget`` seconds, which begin at power-on.

    Raises ``BoardFailed`` ("autoboot not stopped") when the kernel starts first, or the board fails before,
    and ``ConsoleError`` when nothing is heard at all.
    """
    how, shared = autoboot or Autoboot(), Budget(budget, console.channel.clock)
    channel, watch = console.channel, console.watch
    prompt = _with_echo_of(how.keys)
    while not shared.spent:
        channel.listen(min(_RATE, shared.left))
        at_prompt = prompt.search(channel.tail(_TAIL))
        if at_prompt and channel.quiet_for >= _PROMPT_QUIET:
            watch.stage = max(watch.stage, Stage.LOADER)
            loader = Loader(console)
            loader.greet()
            return loader
        if watch.fatal is not None:
            raise console.verdict.failed(watch.fatal)
        if channel.plausibility.garbage:
            raise console.verdict.garbled()
        if watch.stage >= Stage.KERNEL:
            raise BoardFailed(
                "the kernel started before the loader's countdown could be stopped",
                state="autoboot not stopped",
                lines=console.verdict.lines,
                hint="is bootdelay 0, or does this loader want another key or a password?",
            )
        if not at_prompt:
            channel.write(how.keys)
    raise (
        console.verdict.out_of_time(budget)
        if not channel.heard
        else BoardFailed(
            f"no loader prompt within {budget:.0f} s; last line {watch.last_line[:120]!r}",
            state="autoboot not stopped",
            lines=console.verdict.lines,
        )
    )


def _with_echo_of(keys: str) -> re.Pattern[str]:
    """The prompt, and behind it the keys that were typed before it and waited in the UART's receiver.

    U-Boot echoes them there. Were they not known for what they are, every further key would make it worse.
    """
    echoed = "".join(sorted({key for key in f"{keys} " if key.isprintable()}))
    return bounded(rf"{LOADER_WORD}[{re.escape(echoed)}]{{0,{_WAITED}}}\Z")


class Loader:
    """U-Boot at its prompt."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._typist = Typist(console.channel, LOADER_PROMPT)
        self._number = 0

    def greet(self) -> None:
        """A fresh, empty line: of the keys that stopped the countdown, some were typed into it."""
        if not self._typist.resync():
            raise self._console.verdict.unusable("the loader's prompt does not answer")

    def run(self, command: str, *, check: bool = True, seconds: float = 30.0) -> str:
        """Output of a command that ends within ``seconds``. Raises ``BoardFailed`` when it fails and it is
        checked.

        The status is asked for by a line of its own, so that a lost byte in the command is seen in its echo,
        and one in the answer only makes it be asked again. A command that was typed is entered once.
        """
        self._number += 1
        for _ in range(8):
            if self._typist.type(command):
                break
            self._typist.resync()
        else:
            raise self._console.verdict.unusable(f"the loader did not take {command!r}")
        channel = self._console.channel
        channel.write("\n")
        found = channel.find([LOADER_PROMPT], seconds)
        output = (found[1] if found else "").lstrip("\n")
        status = "1" if _UNKNOWN in output else self._status()
        if check and status != "0":
            raise BoardFailed(
                f"U-Boot's command {command!r} failed: {output.strip()[-200:]!r}",
                state="loader command failed",
                lines=self._console.verdict.lines,
            )
        return output

    def _status(self) -> str:
        """``$?`` of the command before; hush keeps it until the next one (U-Boot ``common/cli_hush.c``)."""
        line = f"echo bw-{self._number}-$?"
        answer = bounded(rf"(^|\n)bw-{self._number}-(\d)\n")
        if self._typist.type(line):
            self._console.channel.write("\n")
            if self._console.channel.find([answer], self._typist.patience):
                return self._console.channel.matched().group(2)
        raise self._console.verdict.unusable(
            "the loader's command status was lost; it cannot be asked for twice"
        )

    def environment(self, name: str) -> str | None:
        """A variable's value, or ``None`` when it is not set; believed when it was read alike twice."""
        pattern = re.compile(rf"^{re.escape(name)}=(.{{0,4000}})$", re.MULTILINE)
        before: str | None = None
        for _ in range(_READS):
            text = self.run(f"printenv {name}", check=False)
            if text == before:
                match = pattern.search(text)
                return match.group(1) if match else None
            before = text
        raise self._console.verdict.unusable(f"U-Boot's {name} reads differently each time")

    def set(self, name: str, value: str) -> None:
        """Set a variable for this boot, and read it back. Nothing is saved."""
        if "'" in value or not value.isprintable():
            raise ValueError(f"expected a printable value without single quotes, found {value[:60]!r}")
        for _ in range(4):
            self.run(f"setenv {name} '{value}'", check=False)
            if self.environment(name) == value:
                return
        raise ConsoleError(f"U-Boot's {name} does not become {value[:60]!r}", hint="see the transcript")

    def boot(self, bootargs: str | None = None, command: str = "boot") -> None:
        """Leave the prompt for the kernel; ``bootargs`` hold for this boot only.

        A boot script that sets ``bootargs`` itself (extlinux' ``append``) wins over them.
        """
        if bootargs is not None:
            self.set("bootargs", bootargs)
        for _ in range(8):
            if self._typist.type(command):
                self._console.channel.write("\n")
                self._console.channel.discard()
                return
            self._typist.resync()
        raise self._console.verdict.unusable(f"the loader did not take {command!r}")


def crc32(data: bytes) -> str:
    """As U-Boot's ``crc32`` prints it."""
    return f"{zlib.crc32(data):08x}"
