"""The output of our own npu-matmul tool: one JSON object a product, and a last line that counts.

``npu-matmul: 12 of 12 products right on rocket``. Objects may stand alone on a line or in one JSON document;
every number of an object is kept under its key, so that the tool may grow.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from boardwright.bringup.parsers.text import MOST, lines

_TOTAL = re.compile(r"npu-matmul: (\d{1,9}) of (\d{1,9}) products right on ([\w.:-]{1,60})")


@dataclass(frozen=True, slots=True)
class Run:
    """``right`` of ``total`` on ``backend``; None, when the last line is not there: the run broke off.

    ``products``: the numbers and words of each JSON object, in order.
    """

    right: int | None
    total: int | None
    backend: str
    products: tuple[Mapping[str, float | str], ...]

    @property
    def complete(self) -> bool:
        return self.total is not None

    def rates(self, key: str = "gops") -> list[float]:
        """The numbers under ``key`` of all products that have one."""
        return [v for p in self.products if isinstance(v := p.get(key), float)]


def parse(text: bytes | str) -> Run:
    total = None
    for line in lines(text):
        total = _TOTAL.search(line) or total
    products = tuple(_flat(value) for value in _objects(text))[:10_000]
    if total is None:
        return Run(None, None, "", products)
    return Run(int(total[1]), int(total[2]), total[3], products)


def _objects(text: bytes | str) -> Iterator[dict[str, Any]]:
    whole = text[:MOST].decode("utf-8", "replace") if isinstance(text, bytes) else text[:MOST]
    document = read_json(whole) if whole.lstrip()[:1] in ("[", "{") else None
    if document is not None:
        yield from _inside(document)
        return
    for line in lines(text):
        if line.startswith("{") and isinstance(value := read_json(line), dict):
            yield value


def _inside(document: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list, of the first list in an object, or the object itself."""
    if isinstance(document, dict):
        listed = next((v for v in document.values() if isinstance(v, list)), None)
        document = listed if listed is not None else [document]
    if isinstance(document, list):
        yield from (value for value in document if isinstance(value, dict))


def read_json(text: str) -> Any:
    """The value, or None when it is no JSON, or nested too deep to read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _flat(value: Mapping[str, Any]) -> dict[str, float | str]:
    flat: dict[str, float | str] = {}
    for key, one in list(value.items())[:100]:
        if isinstance(one, str):
            flat[str(key)[:100]] = one[:200]
        elif isinstance(one, bool) or not isinstance(one, int | float):
            continue
        elif abs(one) < 1e300 and math.isfinite(one):
            flat[str(key)[:100]] = float(one)
    return flat
