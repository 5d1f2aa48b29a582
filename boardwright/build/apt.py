"""apt, apart from the host: its own directory, lists and cache, Debian's keyring, one architecture.

Nothing of the host's apt configuration is read but how a mirror is reached (proxies); no hook of the host
runs, no package of the host counts as installed, and an index without a good signature is refused.
"""

from __future__ import annotations

import email.utils
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import mirror
from boardwright.errors import HostError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PATIENCE = 600
"""Seconds for one run of apt; an update of one suite is 10 MB and takes seconds to a minute."""

Fields = dict[str, str]
"""A stanza of an index: field names as Debian spells them."""


@dataclass(frozen=True, slots=True)
class Apt:
    """An apt that knows one suite of one mirror for one architecture."""

    directory: Path
    architecture: str

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run ``apt-get …`` or ``apt-cache …``. Raises ``HostError`` when it hangs."""
        variables = {"APT_CONFIG": str(self.directory / "apt.conf"), "LC_ALL": "C", "TZ": "UTC"}
        kept = ("PATH", "HOME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy")
        try:
            return subprocess.run(
                command,
                env={name: os.environ[name] for name in kept if name in os.environ} | variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"`{' '.join(command[:2])}` has not ended after {_PATIENCE} s") from None

    def stanzas(self, *command: str) -> list[Fields]:
        """The stanzas that ``apt-cache show`` and its like print; empty when apt knows none."""
        return [fields(text) for text in self.run("apt-cache", *command).stdout.split("\n\n") if text.strip()]

    def names(self) -> list[str]:
        """Every package name in the index, virtual ones too."""
        return self.run("apt-cache", "pkgnames").stdout.split()

    def source_names(self) -> list[str]:
        """Every source package in the index."""
        texts = [path.read_text() for path in (self.directory / "lists").glob("*_Sources")]
        return [name for text in texts for name in re.findall(r"^Package: (\S+)", text, re.MULTILINE)]

    def epoch(self) -> int:
        """Seconds since 1970 at which the newest Release file in use was made."""
        dates = [
            email.utils.parsedate_to_datetime(found.group(1))
            for path in (self.directory / "lists").glob("*Release")
            if (found := re.search(r"^Date: (.+)$", path.read_text(errors="replace"), re.MULTILINE))
        ]
        return int(max(dates).timestamp())


def fields(text: str) -> Fields:
    """``Name: value`` lines; lines that start with a blank continue the value, after a newline."""
    found: Fields = {}
    name = ""
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            found[name] = f"{found.get(name, '')}\n{line.strip()}"
        elif ":" in line:
            name, value = line.split(":", 1)
            found[name] = value.strip()
    return found


def prepared(
    cache: Path, address: str, suite: str, architecture: str, *, sources: bool, local: str = ""
) -> Apt:
    """An apt for ``suite`` at the mirror ``address``, its signed index fetched.

    ``local``: stanzas of packages that no mirror has, which it knows besides.

    Raises ``HostError`` when apt or Debian's keyring is missing, when the mirror does not answer, or when
    the signature of its index is not Debian's.
    """
    _require()
    identity = hashlib.sha256(f"{address} {suite} {architecture} {sources}{local}".encode()).hexdigest()[:16]
    directory = cache / "apt" / identity
    for name in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "log"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "apt.conf").write_text(_configuration(directory, architecture))
    kinds = ["deb-src"] if sources else ["deb"]
    options = f"[signed-by={KEYRING} arch={architecture}]"
    lines = [f"{kind} {options} {address} {suite} main non-free-firmware\n" for kind in kinds]
    if local:
        (directory / "local").mkdir(exist_ok=True)
        (directory / "local/Packages").write_text(local)
        lines.append(f"deb [trusted=yes] file:{directory}/local ./\n")
    (directory / "etc/sources.list").write_text("".join(lines))
    apt = Apt(directory, architecture)
    done = apt.run("apt-get", "update")
    if done.returncode != 0:
        raise HostError(
            f"the index of {suite} at {address} cannot be used: {errors(done.stderr)}",
            hint=f"try again later, or {mirror.HINT}",
        )
    return apt


def errors(stderr: str) -> str:
    """The errors in what apt printed, in one line."""
    lines = [line[2:].strip() for line in stderr.splitlines() if line.startswith(("E:", "W:"))]
    return "; ".join(dict.fromkeys(lines)) or stderr.strip()[-300:] or "apt gave no reason"


def _require() -> None:
    for program in ("apt-get", "apt-cache"):
        if shutil.which(program) is None:
            raise HostError(
                f"{program} is not installed, and only apt resolves Debian's dependencies",
                hint="locks are made on Debian or Ubuntu; building from a lock needs no apt index",
            )
    if not KEYRING.exists():
        raise HostError(f"{KEYRING} is missing", hint="install the package debian-archive-keyring")


def _configuration(directory: Path, architecture: str) -> str:
    """apt.conf(5). ``ForceEssential`` empty: apt is in a root only when a recipe names it."""
    settings: Sequence[tuple[str, str]] = (
        ("Dir", f"{directory}/"),
        ("Dir::State", f"{directory}/"),
        ("Dir::State::lists", f"{directory}/lists/"),
        ("Dir::State::status", "/dev/null"),
        ("Dir::Cache", f"{directory}/cache/"),
        ("Dir::Log", f"{directory}/log/"),
        ("Dir::Etc", f"{directory}/etc/"),
        ("APT::Architecture", architecture),
        ("APT::Install-Recommends", "false"),
        ("APT::Install-Suggests", "false"),
        ("APT::Update::Error-Mode", "any"),
        ("APT::Sandbox::User", ""),
        ("APT::Get::AllowUnauthenticated", "false"),
        ("pkgCacheGen::ForceEssential", ","),
        ("Acquire::Languages", "none"),
        ("Acquire::Retries", "3"),
        ("Acquire::http::Timeout", "30"),
        ("Acquire::https::Timeout", "30"),
        *mirror.apt_options().items(),
    )
    lines = [f'{name} "{value}";\n' for name, value in settings]
    return f'#clear APT::Architectures;\nAPT::Architectures {{ "{architecture}"; }};\n' + "".join(lines)
