"""The output of AXERA's ``ax_run_model``: a block of ``name: value`` lines and a line of times in
milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from boardwright.bringup.parsers.text import lines

_PAIR = re.compile(r"^\s{0,12}([A-Za-z][A-Za-z0-9 _-]{0,30}?)\s{0,12}: (.{1,300})$")
_TIME = re.compile(r"\b(min|max|avg|mid|median)\s{0,4}=\s{0,8}(\d{1,9}(?:\.\d{1,6})?)\s{0,4}ms")
_ERROR = re.compile(r"\[E(?:RR)?\].{1,160}|[Ff]ailed.{0,160}|\berror\b.{0,160}")
_BYTES = re.compile(r"(\d{1,15}) Bytes")


@dataclass(frozen=True, slots=True)
class Run:
    """Times in milliseconds; None: the run did not reach its end. ``cmm`` in bytes."""

    model: str
    kind: str
    least: float | None
    average: float | None
    most: float | None
    cmm: int | None
    errors: tuple[str, ...]


def parse(text: bytes | str) -> Run:
    pairs: dict[str, str] = {}
    times: dict[str, float] = {}
    errors: list[str] = []
    for line in lines(text):
        found = _TIME.findall(line)
        if found:
            times |= {name: float(value) for name, value in found}
        elif wrong := _ERROR.search(line):
            errors.append(wrong[0])
        elif (pair := _PAIR.match(line)) and len(pairs) < 100:
            pairs.setdefault(pair[1].strip().lower(), pair[2].strip())
    size = _BYTES.search(pairs.get("cmm size", ""))
    return Run(
        pairs.get("model", ""), pairs.get("type", ""), times.get("min"), times.get("avg"), times.get("max"),
        int(size[1]) if size else None, tuple(errors[:100]),
    )  # fmt: skip
