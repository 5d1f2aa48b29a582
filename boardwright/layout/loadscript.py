"""The one line of the vendor's load script that says where the NPU's memory is.

``/soc/scripts/auto_load_all_drv.sh`` has ``insmod /soc/ko/ax_cmm.ko cmmpool=…`` (AX650 SDK, rootfs/Makefile,
which puts the value of ``CMM_POOL_PARAM`` there). Everything else in the script stays, to the byte.
"""

from __future__ import annotations

import re

from boardwright.errors import InputError, Place
from boardwright.layout.split import Pool, Split, parse_cmmpool

PATH = "/soc/scripts/auto_load_all_drv.sh"
_LINE = re.compile(r"^(?P<head>[^#\n]*\bax_cmm\.ko\b[^#\n]*?\bcmmpool=)(?P<value>\S*)", re.MULTILINE)


def pools(text: str, name: str = PATH) -> tuple[Pool, ...]:
    """The pools that a script loads the driver with. Raises ``InputError`` at the line that is wrong."""
    match = _only(text, name)
    try:
        return parse_cmmpool(match["value"])
    except InputError as error:
        raise InputError(error.message, place=_place(text, match, name), hint=error.hint) from None


def edited(text: str, split: Split, name: str = PATH) -> str:
    """The script with the pools of ``split``. Raises ``InputError`` when it is not one plain line."""
    match = _only(text, name)
    pools(text, name)
    return text[: match.start("value")] + split.cmmpool + text[match.end("value") :]


def _only(text: str, name: str) -> re.Match[str]:
    found = list(_LINE.finditer(text))
    if len(found) != 1:
        lines = ", ".join(str(_place(text, match, name).line) for match in found)
        raise InputError(
            f"expected one line that loads ax_cmm.ko with cmmpool=, found {len(found)}"
            + (f" (lines {lines})" if lines else ""),
            place=Place(name),
        )
    if "$" in found[0]["value"]:
        raise InputError(
            f"cmmpool={found[0]['value']}: the script works its pools out, expected a plain value",
            place=_place(text, found[0], name),
            hint="scripts of PCIe cards read board_cmm.conf: change the pools there",
        )
    return found[0]


def _place(text: str, match: re.Match[str], name: str) -> Place:
    return Place(name, text.count("\n", 0, match.start("value")) + 1)
