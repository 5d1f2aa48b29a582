"""A flash from the image to the last byte read back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from boardwright.errors import HostError, IntegrityError
from boardwright.flash import capacity
from boardwright.flash.journal import Journal
from boardwright.flash.medium import Medium
from boardwright.flash.source import Image, check_start
from boardwright.flash.verify import verify
from boardwright.flash.write import Step, clear_head, heads, rewrite, write

_NAMED = 5
Steps = Callable[[str], Step]
"""Gives what is told of the progress of a phase: ``writing``, ``reading back``, ``writing again``."""


@dataclass(frozen=True, slots=True)
class Done:
    """``seconds`` of writing and of reading back; ``rewritten``: ranges that needed a second write."""

    mapped_bytes: int
    write_seconds: float
    verify_seconds: float
    rewritten: int
    resumed: bool


def _silent(_: str) -> Step:
    return lambda *_: None


def flash(
    image: Image, medium: Medium, journal: Journal, steps: Steps = _silent, marks: bool = False
) -> Done:
    """``marks``: first look whether the medium is as large as it says.

    Raises ``IntegrityError`` for a wrong image and for a medium that does not hold what was written, which
    is left unbootable; ``HostError`` for one that fails. The journal stays until everything was read back.
    """
    check_start(image)
    try:
        return _flash(image, medium, journal, steps, marks)
    except OSError as error:
        raise HostError(f"the medium failed: {error.strerror}", hint="try another reader or cable") from error


def _flash(image: Image, medium: Medium, journal: Journal, steps: Steps, marks: bool) -> Done:
    journal.load()
    resumed = journal.resumed
    if marks and not resumed:
        capacity.check(medium)
    begun = time.monotonic()
    write(image, medium, journal, steps("writing"))
    written = time.monotonic()
    bad = verify(image.bmap, medium, step=steps("reading back"))
    again = frozenset(one.index for one in bad)
    if again:
        rewrite(image, medium, again, steps("writing again"))
        bad = verify(image.bmap, medium, again | heads(image), steps("reading back"))
    journal.forget()
    if bad:
        with contextlib.suppress(HostError):
            clear_head(image, medium)
        named = "; ".join(str(one) for one in bad[:_NAMED])
        more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        raise IntegrityError(
            f"the medium does not hold what was written, twice, in {len(bad)} ranges: {named}{more}",
            hint="use another card, reader or cable: this one loses data",
        )
    return Done(image.bmap.mapped_bytes, written - begun, time.monotonic() - written, len(again), resumed)
