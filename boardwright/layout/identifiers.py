"""Identifiers of disks, partitions and file systems, from digests instead of chance."""

from __future__ import annotations

import uuid

NAMESPACE = uuid.UUID("7b0f7b6e-3c55-5f0e-9d0a-6d1f2c8e4b91")
"""Ours alone; another value would rename every disk and partition ever built."""


def identifier(namespace_digest: str, role: str) -> uuid.UUID:
    """UUIDv5 (RFC 9562) of what an image is made from and of what the identifier is for.

    The same inputs give the same bytes anywhere; ``role`` ('disk', 'partition root') keeps the
    identifiers within one image apart. GPT GUIDs, ext4 UUIDs and hash seeds take it as it is.
    """
    return uuid.uuid5(NAMESPACE, f"{namespace_digest}/{role}")


def fat_serial(namespace_digest: str, role: str) -> str:
    """The 32-bit serial number of a FAT volume, eight hexadecimal digits as ``mkfs.vfat -i`` takes them."""
    return identifier(namespace_digest, role).hex[:8]
