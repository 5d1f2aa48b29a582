"""Scripts of simulated boards: ``tests/console/scripts/*.yaml``.

``boot`` lists ``[seconds after the entry before, text]``, with the word ``countdown`` where the loader waits;
``answers`` maps a command to its output, or to ``{output: ..., status: N}``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from boardwright.console.shell import Result
from boardwright.console.simulator import LoaderScript, Script
from boardwright.errors import InputError, Place

_PLAIN = {"hostname", "user", "password", "autologin", "escapes", "login_flush", "echo"}


def load(path: Path) -> Script:
    """The script in a file. Raises ``InputError`` with what is wrong in it."""
    try:
        value = yaml.safe_load(path.read_text())
        return script(value)
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not a board's script: {error!r}", place=Place(str(path))) from None


def script(value: dict[str, Any]) -> Script:
    known = {"board", "baud", "loader", "boot", "answers", *_PLAIN}
    if unknown := sorted(set(value) - known):
        raise ValueError(f"unknown keys {unknown}, expected some of {sorted(known)}")
    entries = value["boot"]
    at = entries.index("countdown") if "countdown" in entries else None
    loader = value.get("loader")
    return Script(
        boot=tuple((float(pause), str(text)) for pause, text in (e for e in entries if e != "countdown")),
        loader=None if at is None or loader is None else LoaderScript(at=at, **loader),
        answers={str(command): _result(answer) for command, answer in value.get("answers", {}).items()},
        **{key: value[key] for key in _PLAIN if key in value},
    )


def _result(answer: Any) -> Result:
    if isinstance(answer, dict):
        return Result(str(answer.get("output", "")), int(answer["status"]))
    return Result(str(answer), 0)
