"""Token rates, in the words of each runner.

- ours and llama2.c: ``achieved tok/s: %f`` (llama2.c ``run.c``; the first token is not counted); ours also
as JSON - ax-llm up to 2025: ``[N][  Run][ 603]: hit eos,avg 27.22 token/s`` with colours (``sample_log.h``,
``LLM.hpp``) - axllm of 2026: ``09:45:47.825 NTC Run:1145 | hit eos,avg 5.76 token/s``, later
``hit eos,decode avg 4.00 token/s`` - rknn-llm with
``RKLLM_LOG_LEVEL=1``: a table ``I rkllm:  Generate  12419.47  102  121.76  8.21``, and without the
  prefix the table of its demos
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boardwright.bringup.parsers.text import lines, object_in, read_json

_ACHIEVED = re.compile(r"achieved tok/s: (\d{1,9}(?:\.\d{1,12})?)")
_AX = re.compile(r"hit eos, ?(?:decode )?avg (\d{1,9}(?:\.\d{1,6})?) token/s")
_TTFT = re.compile(r"ttft: (\d{1,9}(?:\.\d{1,6})?) ms")
_REMAIN = re.compile(r"remain_cmm\((\d{1,6}) ?MB\)")
_AX_ERROR = re.compile(
    r"\[E\]\[[^\]]{1,80}\]\[[^\]]{1,10}\]: (.{1,160})|\bERR \w{1,60}:\d{1,6} \| (.{1,160})|"
    r"(init axmodel\(.{0,200}\) failed)|(AX_ENGINE_\w{1,40}.{0,40}fail)"
)
_RK = re.compile(
    r"(?:I rkllm: )?\s{0,4}(Prefill|Generate)\s{1,20}\|?\s{0,4}(\d{1,10}(?:\.\d{1,6})?)"
    r"\s{1,20}\|?\s{0,4}(\d{1,9})"
    r"\s{1,20}\|?\s{0,4}(\d{1,9}(?:\.\d{1,6})?)\s{1,30}\|?\s{0,4}(\d{1,9}(?:\.\d{1,6})?)"
)
_RK_MEMORY = re.compile(r"(?:I rkllm: )?\s{0,4}(?:Peak )?Memory Usage \((GB|MB)\)")
_RK_VALUE = re.compile(r"I rkllm:\s{1,4}(\d{1,7}\.\d{1,3})\s{0,40}$")
_RK_ERROR = re.compile(r"E rkllm: .{1,160}|W rkllm: .{0,80}driver version.{0,120}")
_JSON_RATES = ("achieved_tokens_per_second", "tokens_per_second", "tok/s")


@dataclass(frozen=True, slots=True)
class Rate:
    """One answer. ``tokens_per_second`` of the decoding; ``first`` milliseconds to the first token;
    ``prefill`` tokens a second of the prompt. None: the runner does not say."""

    runner: str
    tokens_per_second: float
    line: str
    tokens: int | None = None
    first: float | None = None
    prefill: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """``rates``: one an answer. ``memory``: bytes at most (ours, rknn-llm) or left in the CMM (ax-llm)."""

    rates: tuple[Rate, ...]
    errors: tuple[str, ...] = ()
    memory: int | None = None

    @property
    def rate(self) -> float | None:
        """Tokens a second of the last answer; earlier ones may have warmed caches and clocks."""
        return self.rates[-1].tokens_per_second if self.rates else None


def llama(text: bytes | str, runner: str = "llama-run") -> Run:
    """Our own runner and llama2.c; our JSON too, as a document or a line of its own."""
    rates = []
    memory = None
    for line in lines(text):
        if told := _ACHIEVED.search(line):
            rates.append(Rate(runner, float(told[1]), line.strip()))
        elif line.startswith("{") and isinstance(value := read_json(line), dict):
            rates += _from_json(value, runner, line)
    if not rates:
        document = object_in(text, 1_000_000)
        if document is not None:
            rates += _from_json(document, runner, "")
            peak = _number(_inside(document, "memory").get("peak_bytes"))
            memory = None if peak is None else int(peak)
    return Run(tuple(rates[:10_000]), memory=memory)


def ax_llm(text: bytes | str) -> Run:
    """Both generations of ax-llm."""
    rates: list[Rate] = []
    errors: list[str] = []
    first = memory = None
    for line in lines(text):
        if "ttft" in line and (told := _TTFT.search(line)):
            first = float(told[1])
        elif "token/s" in line and (told := _AX.search(line)):
            rates.append(Rate("ax-llm", float(told[1]), line.strip(), first=first))
            first = None
        elif "remain_cmm" in line and (told := _REMAIN.search(line)):
            memory = int(told[1]) * 2**20
        elif told := _AX_ERROR.search(line):
            errors.append(told[told.lastindex or 0])
    return Run(tuple(rates[:10_000]), tuple(errors[:100]), memory)


def rknn_llm(text: bytes | str) -> Run:
    """rknn-llm's table, from the runtime's log or from its demos."""
    rates: list[Rate] = []
    errors: list[str] = []
    first = prefill = memory = None
    unit = 0
    for line in lines(text):
        if told := _RK.match(line):
            milliseconds, count, speed = float(told[2]), int(told[3]), float(told[5])
            if told[1] == "Prefill":
                first, prefill = milliseconds, speed
            else:
                rates.append(Rate("rknn-llm", speed, line.strip(), count, first, prefill))
                first = prefill = None
        elif told := _RK_MEMORY.match(line):
            unit = 2**30 if told[1] == "GB" else 2**20
        elif unit and (told := _RK_VALUE.match(line)):
            memory, unit = int(float(told[1]) * unit), 0
        elif told := _RK_ERROR.search(line):
            errors.append(told[0])
    return Run(tuple(rates[:10_000]), tuple(errors[:100]), memory)


def _from_json(value: Mapping[str, Any], runner: str, line: str) -> list[Rate]:
    """Our runner's ``--json`` (native/llama-runner/report.c)."""
    rate = next((n for key in _JSON_RATES if (n := _number(value.get(key))) is not None), None)
    if rate is None:
        return []
    generation, prompt = _inside(value, "generation"), _inside(value, "prompt")
    count, first = _number(generation.get("tokens")), _number(value.get("first_token_seconds"))
    return [
        Rate(
            runner,
            rate,
            line.strip(),
            None if count is None else int(count),
            None if first is None else first * 1000,
            _number(prompt.get("tokens_per_second")),
        )
    ]


def _inside(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return float(value)
