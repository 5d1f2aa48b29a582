"""A power switch is set, or the error says which and why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from boardwright.errors import HostError, InputError
from boardwright.targets import power


def test_a_command_is_run_with_on_and_off(tmp_path: Path) -> None:
    log, slept = tmp_path / "log", list[float]()
    script = tmp_path / "relay"
    script.write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    script.chmod(0o755)
    switch = power.parse(f"command:{script} 3")
    assert switch is not None
    power.cycle(switch, sleep=slept.append)
    assert log.read_text() == "3 off\n3 on\n"
    assert slept == [power.OFF_SECONDS]


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        (power.Command(("false",), ("false",)), "ended with 1"),
        (power.Command(("/there/is/none",), ()), "does not start"),
        (power.Command((sys.executable, "-c", "import time; time.sleep(9)"), (), 0.2), "did not end within"),
    ],
)
def test_a_command_that_fails_is_a_lab_error_with_its_name(switch: power.Command, words: str) -> None:
    with pytest.raises(HostError, match=words):
        switch.on()


@pytest.mark.parametrize("text", ["", "relay", "command:", "uhubctl:1-1", "uhubctl:1-1:x", "person:me"])
def test_a_switch_that_is_none_is_refused_with_the_kinds_there_are(text: str) -> None:
    with pytest.raises(InputError, match="expected a power switch") as caught:
        power.parse(text)
    assert "uhubctl:HUB:PORT" in str(caught.value)


def test_uhubctl_gets_hub_port_and_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, program = tmp_path / "log", tmp_path / "uhubctl"
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    switch = power.parse("uhubctl:1-1.4:2")
    assert switch is not None
    switch.on()
    assert log.read_text() == "-l 1-1.4 -p 2 -a on\n"


def test_a_person_is_asked_and_one_who_is_not_there_is_an_error() -> None:
    asked = list[str]()
    person = power.Person(lambda text: asked.append(text) or "")
    power.cycle(person, 0.0)
    assert ["off" in asked[0], "on" in asked[1]] == [True, True]

    def nobody(_: str) -> str:
        raise EOFError

    with pytest.raises(HostError, match="nobody answered"):
        power.Person(nobody).on()
