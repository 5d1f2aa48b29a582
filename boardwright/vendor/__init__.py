"""Formats of the SoC makers, as bytes: no files, no devices, no processes."""
