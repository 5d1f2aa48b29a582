"""The 1024-byte header before an AX650 kernel, unsigned, for the steps of an image.

``boardwright/vendor/axera_header.py`` reads and makes it on the host, and says where the fields are from; a
test holds the two together. Standard library only, as everything that runs inside the sandbox.
"""

from __future__ import annotations

import hashlib
import struct

HEADER = 1024
MAGIC = b"AXERA!"


def header(payload: bytes) -> bytes:
    """Magic, size, the payload's SHA-256, and the wrapping sum of the words behind it; else zeros."""
    made = bytearray(HEADER)
    made[8 : 8 + len(MAGIC)] = MAGIC
    struct.pack_into("<I", made, 16, HEADER + len(payload))
    made[20:52] = hashlib.sha256(payload).digest()
    total = sum(struct.unpack_from(f"<{HEADER // 4 - 1}I", made, 4))
    struct.pack_into("<I", made, 0, total & 0xFFFFFFFF)
    return bytes(made)
