"""Parsers of what programs and kernels print: pure functions from text to typed measurements.

Each takes ``bytes`` or ``str`` from a board that may be broken or hostile, never raises for what it finds
there, takes time linear in the input, and keeps a bounded part of it
(:mod:`boardwright.bringup.parsers.text`).
"""
