"""The words values are made of: text that must have a certain form, with the description an error shows."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta


def _form(pattern: str, description: str) -> Meta:
    """The whole text has this form; ``(?!\\n)`` since ``$`` alone lets a last line feed pass in Python."""
    return Meta(pattern=rf"^(?:{pattern})$(?!\n)", description=description)


# No part of a path may begin with a dot, so neither `..` nor a hidden file can be named.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+~-]*"

Name = Annotated[
    str, _form(r"[a-z0-9][a-z0-9.+-]*", "a name of lower-case letters, digits, dots, plus signs and dashes")
]
"""A file name without its suffix: of a board, a recipe, an overlay, a patch topic."""

FileName = Annotated[str, _form(_PART, "a file name without slashes")]

RelativePath = Annotated[
    str, _form(rf"{_PART}(?:/{_PART})*", "a path below its directory, without '..' and without a first slash")
]

DeviceTree = Annotated[
    str, _form(rf"(?:{_PART}/)*{_PART}\.dtb", "a path such as 'rockchip/rk3588-rock-5b.dtb'")
]

Sha256 = Annotated[str, _form(r"[0-9a-f]{64}", "a SHA-256: 64 lower-case hexadecimal digits")]

_PACKAGE = r"[a-z0-9][a-z0-9+.-]+"
_VERSION = r"[0-9A-Za-z][0-9A-Za-z.+:~-]*"
_PACKAGE_RULE = "a Debian package name: lower-case letters, digits, '+', '-' and '.', two characters at least"

PackageName = Annotated[str, _form(_PACKAGE, _PACKAGE_RULE)]
"""Debian Policy 5.6.1."""

PackageRequest = Annotated[str, _form(rf"{_PACKAGE}(?:={_VERSION})?", _PACKAGE_RULE)]
"""A package, with ``=version`` when only one will do, as apt takes it."""

PackageVersion = Annotated[str, _form(_VERSION, "a Debian package version")]
"""Debian Policy 5.6.12."""

Suite = Annotated[str, _form(r"[a-z][a-z0-9-]*", "a Debian suite such as 'trixie' or 'trixie-backports'")]

PoolPath = Annotated[
    str,
    _form(
        r"pool(?:/[A-Za-z0-9_][A-Za-z0-9_.+:%~-]*)+",
        "a path below 'pool/' of the mirror, without '..' and without a first slash",
    ),
]

Architecture = Annotated[str, _form("amd64|arm64|all|source", "one of amd64, arm64, all, source")]

Url = Annotated[str, _form(r"https?://[^\s/]+/\S+", "an address that begins with http:// or https://")]

MatmulShape = Annotated[
    str, _form(r"[1-9][0-9]{0,3}(?:x[1-9][0-9]{0,4}){2}", "a shape <K>x<rows>x<rows> such as '256x64x1000'")
]

HostName = Annotated[
    str,
    _form(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", "a host name: lower-case letters, digits and dashes"),
]
"""RFC 1123, one label."""

SshKey = Annotated[
    str,
    _form(
        r"(?:\S.* )?(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ +AAAA\S*(?: .*)?",
        "a public key, one line of authorized_keys: ssh-ed25519 AAAA… you@desk",
    ),
    Meta(extra_json_schema={"writeOnly": True}),
]
"""Options may stand before it. No error repeats it: what is wrong here may be the private key."""

PasswordHash = Annotated[
    str,
    _form(r"\$[A-Za-z0-9]+\$[^\s:]+", "a hash as `mkpasswd -m yescrypt` prints it"),
    Meta(extra_json_schema={"writeOnly": True}),
]
"""No error repeats it: what is wrong here may be the password itself."""

LocalVersion = Annotated[str, _form(r"[A-Za-z0-9.+~-]{0,40}", "40 letters, digits, dots and dashes at most")]
"""It becomes part of ``uname -r``, of file names, and of a 64-byte field (kernel ``UTS_RELEASE``)."""

Address = Annotated[int, Meta(ge=0, le=2**48 - 1, description="a physical address such as 0x100000000")]
"""arm64 with 48 bits of physical address."""

MountPoint = Annotated[
    str, _form(rf"/|(?:/{_PART})+", "a mount point such as / or /opt, without '..' and a slash at its end")
]

Positive = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
Epoch = Annotated[int, Meta(ge=0, description="seconds since 1970")]
Processors = Annotated[int, Meta(ge=2, le=8, description="a number of processors from 2 to 8")]
"""With one processor QEMU raises no alignment fault on Device memory; ``virt`` takes eight with GICv2."""
