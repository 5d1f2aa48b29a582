"""A root's key must change when the code makes another root: once it did not, and a stale root stayed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from boardwright.build import plan
from boardwright.build.plan import ROOT_FORMAT

MAKERS = ("roots.py", "roottar.py", "debs.py", "roothost.py")
SEEN = "30c1fa16d494a2ca5b8c3fba0656480ba947ab952fb936aacdc9e7b34667439c"
FORMAT = {"root": 1, "root.tar": 3}


def test_whoever_changes_how_roots_are_made_has_thought_of_their_keys() -> None:
    """Does the change leave other bytes in a root? Raise ROOT_FORMAT. Then record both here."""
    directory = Path(plan.__file__).parent
    now = hashlib.sha256(b"".join((directory / name).read_bytes() for name in MAKERS)).hexdigest()
    assert (now, ROOT_FORMAT) == (SEEN, FORMAT)
