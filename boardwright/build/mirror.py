"""Where Debian packages come from: the host's own apt configuration, or ``BOARDWRIGHT_MIRROR``.

No mirror is written into this project. The order is

1. ``BOARDWRIGHT_MIRROR``: base addresses (http, https, file, or an absolute path) separated by blanks;
2. the entries of ``/etc/apt`` that serve Debian's main archive;
3. the mirror that the installed mmdebstrap uses by default, for hosts such as Ubuntu that have no 2.

A mirror is the address above ``dists/`` and ``pool/``, without a slash at its end. Proxies are those of
apt (``Acquire::http::Proxy``, also for one host, and ``Proxy-Auto-Detect``), else those of the environment.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from boardwright.errors import HostError, InputError

APT = Path("/etc/apt")
VARIABLE = "BOARDWRIGHT_MIRROR"
HINT = f"set {VARIABLE}=<address of a Debian mirror, the directory above dists/>"

# Debian's names for its suites; Ubuntu's and third parties' differ, or stand beside a key of their own.
_SUITE = re.compile(
    r"(stable|oldstable|oldoldstable|testing|unstable|sid|experimental|buster|bullseye|bookworm|trixie|forky|duke)"
    r"(-updates|-proposed-updates|-backports|-backports-sloppy)?"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of a sources file, for one URI."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""


def mirrors(apt: Path = APT) -> tuple[str, ...]:
    """Mirrors in the order in which they are tried; empty when this host names none.

    Raises ``InputError`` when ``BOARDWRIGHT_MIRROR`` is no list of addresses.
    """
    if wanted := os.environ.get(VARIABLE, "").split():
        return tuple(dict.fromkeys(_checked(word) for word in wanted))
    found = [_base(source.uri) for source in sources(apt) if serves_debian(source)]
    return tuple(dict.fromkeys(found)) or _default_mirror()


def require(found: tuple[str, ...]) -> None:
    """Raise ``HostError`` when there is no mirror."""
    if not found:
        raise HostError("the apt configuration of this host names no Debian mirror", hint=HINT)


def _checked(word: str) -> str:
    if word.startswith("/"):
        return Path(word).as_uri()
    parts = urllib.parse.urlsplit(word)
    if parts.scheme not in ("http", "https", "file") or not (parts.netloc or parts.scheme == "file"):
        raise InputError(f"{VARIABLE}: expected addresses such as http://example.org/debian, found {word!r}")
    return _base(word)


def _base(uri: str) -> str:
    return uri.rstrip("/")


def serves_debian(source: Source) -> bool:
    """Whether an entry is one of Debian's main archive: its suites, its component, its key.

    ``*-security`` lies in another archive. A third party may use Debian's suite names, but signs with a
    key of its own, which its entry names.
    """
    scheme = source.uri.partition(":")[0]
    return (
        scheme in ("http", "https", "file")
        and "main" in source.components
        and any(_SUITE.fullmatch(suite) for suite in source.suites)
        and (not source.signed_by or "debian-archive" in source.signed_by)
    )


def sources(apt: Path) -> list[Source]:
    """Every enabled entry below ``apt``, in apt's own order; unreadable files are skipped as apt does."""
    parts = apt / "sources.list.d"
    files = [apt / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else [])]
    found: list[Source] = []
    for path in files:
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if path.suffix == ".list":
            found += one_line_style(text)
        elif path.suffix == ".sources":
            found += deb822_style(text)
    return found


def one_line_style(text: str) -> Iterator[Source]:
    """``deb [ options ] uri suite component …``, sources.list(5)."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            options, uri, suite, components = match.groups()
            signed = re.search(r"signed-by\s*=\s*(\S+)", options or "", re.IGNORECASE)
            yield Source(uri, (suite,), tuple(components.split()), signed.group(1) if signed else "")


def deb822_style(text: str) -> Iterator[Source]:
    """Stanzas of ``Types: URIs: Suites: Components: Signed-By: Enabled:``, sources.list(5)."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = _fields(stanza)
        if fields.get("enabled", "yes").lower() in ("no", "false", "without", "off", "disable", "0"):
            continue
        if "deb" in fields.get("types", "").split():
            for uri in fields.get("uris", "").split():
                yield Source(
                    uri,
                    tuple(fields.get("suites", "").split()),
                    tuple(fields.get("components", "").split()),
                    fields.get("signed-by", ""),
                )


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _default_mirror() -> tuple[str, ...]:
    """What the installed mmdebstrap itself falls back to, read from its program text."""
    program = shutil.which("mmdebstrap")
    if program is None:
        return ()
    text = Path(program).read_text(errors="replace")
    match = re.search(r"\$mirror\s*=\s*[\"'](https?://[^\s\"']+/debian)/?[\"']", text)
    return (match.group(1),) if match else ()


@functools.cache
def apt_options() -> dict[str, str]:
    """The host's ``Acquire::`` options that say how to reach a mirror; empty without apt."""
    if shutil.which("apt-config") is None:
        return {}
    done = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    pairs = re.findall(r'^(Acquire::(?:https?)::Proxy\S*) "([^"]+)";$', done.stdout, re.MULTILINE)
    return dict(pairs)


@functools.cache
def proxy(url: str) -> str | None:
    """The proxy for an http or https mirror, as ``http://host:port``, or None for none."""
    parts = urllib.parse.urlsplit(url)
    host, options = parts.hostname or "", apt_options()
    for name in (f"Acquire::{parts.scheme}::Proxy::{host}", f"Acquire::{parts.scheme}::Proxy"):
        if chosen := options.get(name):
            return None if chosen == "DIRECT" else chosen
    for name in ("Proxy-Auto-Detect", "ProxyAutoDetect"):
        if program := options.get(f"Acquire::http::{name}"):
            return _detected(program, url)
    if urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _detected(program: str, url: str) -> str | None:
    try:
        done = subprocess.run(
            [program, url], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.strip()
    return said if said and said != "DIRECT" else None
