"""The output of AXERA's ``ax_run_model``: a block of ``name: value`` lines, and times in milliseconds:
``min``, ``max`` and ``avg``, since tool 2.3 also ``median`` and percentiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from boardwright.bringup.parsers.text import lines

_PAIR = re.compile(r"^\s{0,12}([A-Za-z][A-Za-z0-9 _-]{0,30}?)\s{0,12}: (.{1,300})$")
_TIME = re.compile(r"(?:^|\s)(min|max|avg|median|\d{1,2}%)\s{0,4}=\s{0,8}(\d{1,9}(?:\.\d{1,6})?)\s{0,4}ms")
_ERROR = re.compile(r"\[E(?:RR(?:OR)?)?\].{1,160}|[Ff]ailed.{0,160}|\berror\b.{0,160}")
_BYTES = re.compile(r"(\d{1,15}) Bytes")


@dataclass(frozen=True, slots=True)
class Run:
    """Times in milliseconds; None: the run did not reach its end. ``percentiles``: by their number, as far as
    the tool has them. ``kind``: for how many cores the model was made. ``cmm`` in bytes."""

    model: str
    kind: str
    least: float | None
    average: float | None
    most: float | None
    cmm: int | None
    errors: tuple[str, ...]
    median: float | None = None
    percentiles: Mapping[int, float] = field(default_factory=dict)


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
        int(size[1]) if size else None, tuple(errors[:100]), times.get("median"),
        {int(name[:-1]): value for name, value in times.items() if name.endswith("%")},
    )  # fmt: skip
