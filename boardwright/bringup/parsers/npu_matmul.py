"""The output of our own npu-matmul tool (native/npu-matmul/tool): ``test`` and ``bench``, as text or JSON.

As text ``test`` ends with ``npu-matmul: 12 of 12 products right on rocket``; its JSON has ``right`` and
``count``. Every number and word of a product is kept under its key, so that the tool may grow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boardwright.bringup.parsers.text import lines, object_in

_EVIDENCE = re.compile(r"; evidence: (\w{1,40})")
_WRONG = re.compile(r"\bWRONG\b")
_TOTAL = re.compile(r"npu-matmul: (\d{1,9}) of (\d{1,9}) products right on ([\w.:-]{1,60})")


@dataclass(frozen=True, slots=True)
class Run:
    """``right`` of ``total`` on ``backend``; None, when their line is not there: the run broke off.

    ``evidence``: in the tool's words. ``products``: numbers and words of each product or shape, in order.
    """

    right: int | None
    total: int | None
    backend: str
    products: tuple[Mapping[str, float | str | bool], ...] = ()
    evidence: str = ""
    wrong: tuple[str, ...] = ()
    """Products that are wrong, as the tool puts it."""

    @property
    def complete(self) -> bool:
        return self.total is not None

    def rates(self, key: str = "gflops") -> list[float]:
        """The numbers under ``key`` of all products that have one."""
        return [v for p in self.products if isinstance(v := p.get(key), float)]


def parse(text: bytes | str) -> Run:
    document = object_in(text)
    return _table(text) if document is None else _document(document)


def _document(document: Mapping[str, Any]) -> Run:
    listed = next((v for k in ("products", "shapes") if isinstance(v := document.get(k), list)), [])
    products = [_flat(product) for product in listed[:10_000] if isinstance(product, dict)]
    head = _flat(document)
    right, count = head.get("right"), head.get("count")
    wrong = tuple(_name(product) for product in products if product.get("right") is False)
    return Run(
        int(right) if isinstance(right, float) else None,
        int(count) if isinstance(count, float) else None,
        str(head.get("backend", "")),
        tuple(products),
        str(head.get("evidence", "")),
        wrong,
    )


def _table(text: bytes | str) -> Run:
    total, evidence = None, ""
    wrong: list[str] = []
    for line in lines(text):
        total = _TOTAL.search(line) or total
        evidence = hit[1] if (hit := _EVIDENCE.search(line)) else evidence
        if _WRONG.search(line) and len(wrong) < 1000:
            wrong.append(" ".join(line.split()))
    if total is None:
        return Run(None, None, "", evidence=evidence, wrong=tuple(wrong))
    return Run(int(total[1]), int(total[2]), total[3], evidence=evidence, wrong=tuple(wrong))


def _name(product: Mapping[str, float | str | bool]) -> str:
    shape = "x".join(f"{v:g}" for key in "mkn" if isinstance(v := product.get(key), float))
    return f"{product.get('type', '')} {shape} {product.get('text', '')}".strip()


def _flat(value: Mapping[str, Any]) -> dict[str, float | str | bool]:
    flat: dict[str, float | str | bool] = {}
    for key, one in list(value.items())[:100]:
        if isinstance(one, str):
            flat[str(key)[:100]] = one[:200]
        elif isinstance(one, bool):
            flat[str(key)[:100]] = one
        elif not isinstance(one, int | float):
            continue
        elif abs(one) < 1e300 and math.isfinite(one):
            flat[str(key)[:100]] = float(one)
    return flat
