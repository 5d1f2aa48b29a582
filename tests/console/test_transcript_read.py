"""A recording is read whole, or it is said where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardwright.console.transcript import read
from boardwright.errors import InputError

HEAD = '{"version": 2, "width": 80, "height": 24}\n'
WHOLE = '[1.5, "o", "hello\\n"]\n'


@pytest.mark.parametrize(("last", "events"), [("", 1), ('[2.0, "o", "wor', 1), ('[2.0, "o", "world"]', 2)])
def test_a_recorder_that_was_killed_may_leave_half_a_line(tmp_path: Path, last: str, events: int) -> None:
    cast = tmp_path / "killed.cast"
    cast.write_text(HEAD + WHOLE + last)
    assert len(read(cast)) == events


@pytest.mark.parametrize(
    ("text", "line"), [(HEAD + "[1.0,\n" + WHOLE, 2), (HEAD + WHOLE + "[1.0,\n", 3), ('{"version": 2', 1)]
)
def test_any_other_broken_line_is_named(tmp_path: Path, text: str, line: int) -> None:
    cast = tmp_path / "broken.cast"
    cast.write_text(text)
    with pytest.raises(InputError) as told:
        read(cast)
    assert told.value.place is not None
    assert told.value.place.line == line
