"""The loader of a simulated board: a countdown that keys may end, then U-Boot's prompt."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoaderScript:
    """A loader that can be stopped. ``at``: how many chunks of ``Script.boot`` come before its countdown."""

    at: int
    prompt: str = "=> "
    countdown: str = "Hit any key to stop autoboot: "
    seconds: int = 2
    """Below zero: it stands at its prompt already."""
    stop: str = ""
    """The text that ends the countdown; empty: any key."""
    deaf_for: int = 0
    """So many keys are lost first."""
    fifo: int = 0
    """So many keys typed before the countdown wait in the receiver; they come out behind the prompt."""
    environment: Mapping[str, str] = field(default_factory=dict)
    append: str | None = None
    """What its boot script makes of ``bootargs``, as extlinux' ``append`` does; None: it leaves them."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Commands that succeed, with what they print."""
    failing: Mapping[str, str] = field(default_factory=dict)
    """Commands that fail, with what they print."""


class After(enum.Enum):
    """What a line at the prompt leads to."""

    PROMPT = "prompt"
    KERNEL = "kernel"
    RESET = "reset"


class SimulatedLoader:
    """One start of the loader. ``cmdline``: what the kernel it started was given."""

    def __init__(self, script: LoaderScript) -> None:
        self._script = script
        self._environment = dict(script.environment)
        self._keys, self._deaf = "", script.deaf_for
        self._status = 0
        self.cmdline = ""

    def stopped_by(self, typed: str) -> bool:
        """Whether the countdown ends with these further keys."""
        for key in typed:
            self._deaf -= 1
            self._keys += key if self._deaf < 0 else ""
        return bool(self._keys) and self._script.stop in self._keys

    def line(self, line: str) -> tuple[str, After]:
        """What a line at the prompt prints, and what comes next."""
        word, _, rest = line.strip().partition(" ")
        boots_by_script = line.strip() in ("boot", "bootd", "run bootcmd")
        if boots_by_script or word in ("booti", "bootm"):
            given = self._environment.get("bootargs", "")
            append = self._script.append
            self.cmdline = append if boots_by_script and append is not None else given
            return "", After.KERNEL
        if word == "reset":
            return "", After.RESET
        said, status = self._command(line, word, rest)
        self._status = status
        return said, After.PROMPT

    def _command(self, line: str, word: str, rest: str) -> tuple[str, int]:
        """Output and status, as hush keeps it until the next command (U-Boot ``common/cli_hush.c``)."""
        if line in self._script.failing:
            return self._script.failing[line], 1
        if line in self._script.known:
            return self._script.known[line], 0
        name, _, value = rest.partition(" ")
        match word:
            case "echo":
                return rest.replace("$?", str(self._status)) + "\n", 0
            case "setenv":
                self._environment[name] = value.strip("'")
                return "", 0
            case "printenv" if rest in self._environment:
                return f"{rest}={self._environment[rest]}\n", 0
            case "printenv":
                return f'## Error: "{rest}" not defined\n', 1
            case "version":
                return "U-Boot (simulated)\n", 0
            case "":
                return "", 0
        return f"Unknown command '{word}' - try 'help'\n", 1
