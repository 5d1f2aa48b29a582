"""Formats of the SoC makers, as bytes and files, and the protocols that carry them to a board; no processes."""
