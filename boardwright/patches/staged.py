"""The patches of a recipe as inputs of its step: those of its source line, file by file.

Only what the line gets is an input, so editing the port of one line leaves the keys of the others alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from boardwright.build.step import Input, Text
from boardwright.kinds.context import Context
from boardwright.patches.series import Absent, in_order, line_of, plain, read


class Staged(msgspec.Struct, frozen=True):
    """Topics that a line gets, in order, as inputs ``patches/<topic>/…``; and those it does not, with why."""

    line: str
    topics: tuple[str, ...]
    inputs: Mapping[str, Input]
    absent: Mapping[str, str]

    @property
    def title(self) -> str:
        """For a step's title: ``2 patch topics (without rocket-hardening: the driver came with 6.18)``."""
        count = f"{len(self.topics)} patch topic{'' if len(self.topics) == 1 else 's'}"
        left = "; ".join(f"without {topic}: {reason}" for topic, reason in self.absent.items())
        return f"{count} ({left})" if left else count


def staged(context: Context, collection: str, topics: Iterable[str], version: str) -> Staged:
    """The topics of ``patches/<collection>`` for a source of ``version``, in the collection's order.

    Raises ``InputError`` for a topic that is none, or that says nothing about the source's line.
    """
    line = line_of(version)
    present: list[str] = []
    inputs: dict[str, Input] = {}
    absent: dict[str, str] = {}
    for topic in in_order(context.root, collection, topics):
        found = read(context.root, collection, topic).of(line)
        if isinstance(found, Absent):
            absent[topic] = found.reason
            continue
        present.append(topic)
        inputs[f"patches/{topic}/series"] = Text(plain(found))
        for name in found:
            inputs[f"patches/{topic}/{name}"] = context.file(f"patches/{collection}/{topic}/{name}")
    return Staged(line, tuple(present), inputs, absent)
