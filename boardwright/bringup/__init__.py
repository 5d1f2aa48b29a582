"""Bring-up: pytest checks over a console, each with its measurements, one outcome, and its evidence."""
