"""The plan: steps in order, each with its key. Pure: nothing is run and nothing is touched.

A key is the digest of a record of everything declared that can change the step's output: its script and
helper programs, its environment, its inputs, its variables, its epoch. The record is kept with the store
entry and in the manifest, and it is what ``invoke explain`` compares.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from boardwright.build import digest
from boardwright.build.step import AnyStep, Download, Input, LocalFile, Output, Rendered, RootStep, Text
from boardwright.errors import InputError

SEALED = Path(__file__).parent.parent / "sealed"

STEP_FORMAT = 1
"""Raised when the executor itself changes what a step's script sees."""
ROOT_FORMAT = {"root": 1, "root.tar": 3}
"""By output; raised when :mod:`boardwright.build.roots` makes another root from the same packages
(``tests/build/test_root_format.py`` asks). 2: no ssh host keys are made or kept;
3: nor what systemd-resolved keeps of the host's name servers."""


class Planned(msgspec.Struct, frozen=True):
    """A step with its key, the record behind the key, and the names of the steps it needs."""

    step: AnyStep
    key: str
    record: dict[str, Any]
    needs: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """Steps by name, every step after those it needs."""

    steps: Mapping[str, Planned]
    targets: tuple[str, ...]

    def __getitem__(self, name: str) -> Planned:
        try:
            return self.steps[name]
        except KeyError:
            from boardwright.schema.suggest import nearest

            raise InputError(
                f"the plan has no step {name!r}",
                hint=nearest(name, self.steps) or f"its steps are {', '.join(self.steps)}",
            ) from None

    def towards(self, targets: Iterable[str]) -> Plan:
        """The same steps with other targets."""
        return Plan(self.steps, tuple(targets))


def make(steps: Iterable[AnyStep], targets: Iterable[str]) -> Plan:
    """Order ``steps`` and compute their keys. Raises ``InputError`` on a cycle or an unknown step."""
    by_name = {step.name: step for step in steps}
    planned: dict[str, Planned] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in planned:
            return
        if name in path:
            raise InputError(f"steps need each other: {' -> '.join([*path[path.index(name) :], name])}")
        if name not in by_name:
            raise _unknown(name, path, by_name)
        step = by_name[name]
        needs = needed(step)
        for other in needs:
            visit(other, (*path, name))
        record = record_of(step, planned)
        planned[name] = Planned(step, digest.of_json(record), record, needs)

    wanted = tuple(targets)
    for name in wanted:
        visit(name, ())
    return Plan(planned, wanted)


def _unknown(name: str, path: tuple[str, ...], known: Mapping[str, AnyStep]) -> InputError:
    from boardwright.schema.suggest import nearest

    asked = f"step {path[-1]!r} needs {name!r}, which is not in the plan" if path else f"no step {name!r}"
    return InputError(asked, hint=nearest(name, known) or f"the steps are {', '.join(known)}")


def needed(step: AnyStep) -> tuple[str, ...]:
    """Names of the steps whose outputs ``step`` uses, its environment first."""
    if isinstance(step, RootStep):
        return tuple(dict.fromkeys(built.output.step for built in step.built))
    outputs = (given.step for given in step.inputs.values() if isinstance(given, Output))
    return tuple(dict.fromkeys([step.environment, *outputs]))


def record_of(step: AnyStep, planned: Mapping[str, Planned]) -> dict[str, Any]:
    """Everything declared that can change the output of ``step``, as JSON."""
    if isinstance(step, RootStep):
        return {
            "format": ROOT_FORMAT[step.output],
            "architecture": step.architecture,
            "output": step.output,
            "epoch": step.epoch,
            "options": list(step.options),
            "packages": {f"{p.name} {p.version} {p.architecture}": p.sha256 for p in step.packages}
            | {
                f"{b.name} {b.version} {b.architecture}": _input_record(b.output, planned) for b in step.built
            },
        }
    return {
        "format": STEP_FORMAT,
        "script": _text_digest(step.script),
        "environment": planned[step.environment].key,
        "inputs": {name: _input_record(given, planned) for name, given in step.inputs.items()},
        "sealed": {name: _sealed_digest(name) for name in step.sealed},
        "variables": dict(step.variables),
        "outputs": list(step.outputs),
        "epoch": step.epoch,
    }


def _input_record(given: Input, planned: Mapping[str, Planned]) -> str:
    if isinstance(given, Output):
        return f"{given.step}:{given.path} {planned[given.step].key}"
    if isinstance(given, Download):
        return f"sha256 {given.sha256}"
    if isinstance(given, Text):
        return f"text {_text_digest(given.content)}"
    if isinstance(given, Rendered):
        return f"rendered {given.digest} {_text_digest(given.variables)}"
    assert isinstance(given, LocalFile)
    return f"local {given.digest}"


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _sealed_digest(name: str) -> str:
    return digest.of_file(SEALED / name)


def downloads(step: AnyStep) -> list[Download]:
    """What ``step`` needs from mirrors, vendors or the user, before it can run."""
    if isinstance(step, RootStep):
        return [Download(p.path, p.size, p.sha256) for p in step.packages]
    return [given for given in step.inputs.values() if isinstance(given, Download)]
