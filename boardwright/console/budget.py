"""One budget of seconds that several stages share, so that a slow one leaves less to those after it."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """``seconds`` from now, by ``clock``; ``end`` is a reading of it."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds, self._clock = seconds, clock
        self.end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds; never negative."""
        return max(self.end - self._clock(), 0.0)

    @property
    def spent(self) -> bool:
        return self.left <= 0.0
