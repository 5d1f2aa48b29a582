"""Partition tables and memory maps as arithmetic; no I/O."""
