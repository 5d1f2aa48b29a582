"""CRC-32 over a run of zeros of any length, without reading them: a 24 GB hole in microseconds.

Feeding one zero bit to the register is a linear map over GF(2), so feeding 2**n of them is that map squared n
times (the idea of zlib's ``crc32_combine``). A map is 32 words: the images of the register's single bits.
"""

from __future__ import annotations

import functools

_POLYNOMIAL = 0xEDB88320
_Map = tuple[int, ...]


def crc32_of_zeros(crc: int, length: int) -> int:
    """``zlib.crc32(bytes(length), crc)``."""
    register = crc ^ 0xFFFFFFFF
    power = 3  # a byte is 2**3 bits
    while length:
        if length & 1:
            register = _apply(_zeros(power), register)
        length >>= 1
        power += 1
    return register ^ 0xFFFFFFFF


@functools.cache
def _zeros(power: int) -> _Map:
    """The map of 2**power zero bits."""
    if power == 0:
        return tuple((bit >> 1) ^ (_POLYNOMIAL if bit & 1 else 0) for bit in (1 << n for n in range(32)))
    half = _zeros(power - 1)
    return tuple(_apply(half, image) for image in half)


def _apply(linear: _Map, register: int) -> int:
    total = 0
    for bit, image in enumerate(linear):
        if register >> bit & 1:
            total ^= image
    return total
