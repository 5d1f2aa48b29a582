"""Cards that claim more than they hold: found by marks, before anything is lost.

Such cards drop what is written behind their real end, or let it wrap around to the start. Marks go where
wraps at a power of two would meet, and what stood there before is put back. A card that wraps elsewhere is
found later, when the image is read back.
"""

from __future__ import annotations

import hashlib
import mmap

from boardwright.errors import HostError
from boardwright.flash.medium import Medium

MARK = 4096
_SMALLEST = 16 * 2**20


def check(medium: Medium) -> None:
    """Raises ``HostError`` that names about how much is real."""
    places = _places(medium.size)
    before = [_read(medium, place) for place in places]
    written = 0
    try:
        for place in places:
            written += 1
            medium.write(place, _memory(_mark(medium.size, place)))
        medium.sync()
        wrong = [place for place in places if _read(medium, place) != _mark(medium.size, place)]
    except OSError as error:
        raise HostError(f"marks could not be written to the medium: {error.strerror}") from error
    finally:
        # Backwards, which undoes wrapped writes too.
        for place, content in reversed(list(zip(places, before, strict=True))[:written]):
            medium.write(place, _memory(content))
    if wrong:
        medium.sync()
        good = max((place for place in places if place not in wrong), default=0)
        raise HostError(
            f"the medium does not hold the {medium.size} bytes it claims: marks at {wrong[0]} and "
            f"{len(wrong) - 1} other places were lost, the last that stayed is at {good}",
            hint="it is a counterfeit or broken; what was on it has been put back",
        )


def _places(size: int) -> list[int]:
    """The start, every power of two, and the end."""
    places, place = {0, (size - MARK) // MARK * MARK}, _SMALLEST
    while place + MARK <= size:
        places.add(place)
        place *= 2
    return sorted(places)


def _mark(size: int, place: int) -> bytes:
    return hashlib.shake_256(f"boardwright {size} {place}".encode()).digest(MARK)


def _read(medium: Medium, place: int) -> bytes:
    memory = _memory(bytes(MARK))
    try:
        medium.read(place, memory)
    except OSError as error:
        raise HostError(f"byte {place} of the medium cannot be read: {error.strerror}") from error
    return bytes(memory)


def _memory(content: bytes) -> memoryview:
    memory = mmap.mmap(-1, len(content))
    memory[:] = content
    return memoryview(memory)
