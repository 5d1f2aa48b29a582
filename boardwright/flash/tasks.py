"""Calls that run beside this thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


class Task:
    """A call in a thread of its own, not waited for when the program ends: a broken card may never answer.

    A thread is made for each, as it costs nothing beside the mebibytes that such a call moves.
    """

    def __init__(self, name: str, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        self._error: BaseException | None = None

        def run() -> None:
            try:
                call(*args, **kwargs)
            except BaseException as error:  # raised again where it is waited for
                self._error = error

        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Raises what the call raised."""
        self._thread.join()
        if self._error:
            raise self._error
