"""How much CMM memory a language model needs on an AX650N, as far as anything public says.

The vendor has no table. Its runner's documentation gives a rule, the files of a model and some 30 % more
(ax-llm, branch axllm, ``docs/configuration.md``); what its own tests ran in less is believed instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boardwright.schema.units import Size

MIB = 2**20
STEP = Size(512 * MIB)
"""Splits are made in these steps, as every shipped one is."""
USED_BEFORE = Size(277 * MIB)
"""What a pool of 4 GiB had in use before any model: 283,076 KB of mem_cmm_info (one report)."""


@dataclass(frozen=True, slots=True)
class Model:
    """``files``: bytes of all its .axmodel files. ``ran_in``: a pool it is known to have run in, in bytes.

    ``basis``: whether the size was read in a file list (``source``), reported, or worked out (``inferred``).
    """

    name: str
    files: Size
    basis: Literal["source", "reported", "inferred"]
    source: str
    ran_in: Size | None = None

    @property
    def need(self) -> Size:
        """Bytes of CMM memory that are enough: by the rule, or what was seen to be enough if that is less."""
        rule = -(-int(self.files) * 13 // 10) + USED_BEFORE
        whole = -(-rule // MIB) * MIB
        return Size(min(whole, self.ran_in) if self.ran_in else whole)

    def words(self) -> str:
        """Where the need comes from, for an error."""
        if self.ran_in == self.need:
            return f"{self.ran_in} were seen to be enough"
        return f"{_mib(self.files)} of files, 30 % more, and {USED_BEFORE} in use before"


def _mib(size: int) -> str:
    return f"{-(-size // MIB)}MiB"


def _tenths(mib_tenths: int) -> Size:
    """Tenths of a MiB as bytes, rounded up."""
    return Size(-(-mib_tenths * MIB // 10))


_LISTS = "file lists of ax-llm's smoke tests (branch axllm)"
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("qwen3-0.6b", _tenths(10778), "source", _LISTS),
        Model("minicpm5-1b", _tenths(14640), "source", _LISTS),
        Model("qwen3-1.7b", _tenths(29159), "source", _LISTS),
        Model("qwen3-vl-2b-int4", _tenths(42970), "source", _LISTS, ran_in=Size(4608 * MIB)),
        # One byte for each of 3.8 billion weights: no file list was found.
        Model("phi-3-mini", Size(3_800_000_000), "inferred", "one byte a weight"),
        # Sipeed's wiki calls a pool of 6 GB enough; the size is the upper end of what is reported.
        Model("7b-int4", Size(4_500_000_000), "reported", "Sipeed wiki, maixIV", ran_in=Size(6144 * MIB)),
    )
}


def that_fit(pool: int) -> list[str]:
    """Names of models whose need a pool of ``pool`` bytes meets."""
    return [name for name, model in MODELS.items() if model.need <= pool]
