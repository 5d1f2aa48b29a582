"""Formats of the SoC makers, as bytes and files, and the protocols to carry them to a board; no processes."""
