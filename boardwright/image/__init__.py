"""Formats of a disk image, read on the host."""
