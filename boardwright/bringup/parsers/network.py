"""Network interfaces: ``ip -o link`` and ``ip -o addr`` (iproute2 6.15)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_LINK = re.compile(
    r"^(\d{1,5}): ([\w.-]{1,40})(?:@[\w.-]{1,40})?: <([A-Z_,0-9-]{0,200})>.{0,120}? state (\w{1,16})"
)
_ETHER = re.compile(r"link/ether ([0-9a-f]{2}(?::[0-9a-f]{2}){5})")
_ADDRESS = re.compile(
    r"^(\d{1,5}): ([\w.-]{1,40})\s{1,20}(inet6?) ([0-9a-f.:]{2,45})/(\d{1,3}).{0,120}?scope (\w{1,10})"
)


@dataclass(frozen=True, slots=True)
class Interface:
    """``carrier``: a cable is in and the other end answers (LOWER_UP). ``addresses``: of global scope."""

    name: str
    mac: str
    up: bool
    carrier: bool
    addresses: tuple[str, ...]


def interfaces(links: bytes | str, addresses: bytes | str) -> list[Interface]:
    """All interfaces but the loopback."""
    by_name: dict[str, list[str]] = {}
    for line in lines(addresses):
        if (hit := _ADDRESS.match(line)) and hit[6] == "global":
            by_name.setdefault(hit[2], []).append(f"{hit[4]}/{hit[5]}")
    found = []
    for line in lines(links):
        if hit := _LINK.match(line):
            flags = hit[3].split(",")
            mac = _ETHER.search(line)
            if "LOOPBACK" not in flags:
                found.append(
                    Interface(
                        hit[2], mac[1] if mac else "", "UP" in flags, "LOWER_UP" in flags,
                        tuple(by_name.get(hit[2], [])[:50]),
                    )
                )  # fmt: skip
    return found[:1000]
