"""How far a flash came, so that the next one goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from boardwright.errors import HostError
from boardwright.flash.choose import Choice
from boardwright.image.bmap import Bmap


@dataclass(slots=True)
class Journal:
    """Ranges below ``done`` are on the medium, but for the first mebibyte, which is always written last."""

    path: Path
    image: str
    done: int = 0
    resumed: bool = field(default=False, init=False)

    def load(self) -> None:
        """A record of another image on this medium counts for nothing."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            if kept["image"] == self.image and type(kept["done"]) is int and kept["done"] >= 0:
                self.done, self.resumed = kept["done"], True

    def keep(self, done: int) -> None:
        """Call it only after the medium was told to keep what was written. Raises ``HostError``."""
        self.done = done
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps({"image": self.image, "done": done}), encoding="utf-8")
            new.replace(self.path)
        except OSError as error:
            raise HostError(f"{self.path}: {error.strerror}", hint="free some space in the cache") from error

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self.done, self.resumed = 0, False


def journal(directory: Path, choice: Choice, bmap: Bmap) -> Journal:
    """The record for this target and image; a disk is known by its serial number, else by its diskseq."""
    device = choice.device
    if device is None:
        return record(directory, bmap, "file", str(choice.path))
    known = (device.serial, str(device.size)) if device.serial else map(str, device.identity)
    return record(directory, bmap, "disk", *known)


def record(directory: Path, bmap: Bmap, *target: str) -> Journal:
    """The record for a target, by the words that tell it from any other."""
    name = hashlib.sha256(json.dumps(target).encode()).hexdigest()[:32]
    return Journal(directory / f"{name}.json", hashlib.sha256(repr(bmap).encode()).hexdigest())
