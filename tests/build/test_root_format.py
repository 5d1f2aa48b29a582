"""A root's key must change when the code makes another root: once it did not, and a stale root stayed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from boardwright.build import plan
from boardwright.build.plan import ROOT_FORMAT

MAKERS = ("roots.py", "roottar.py", "debs.py", "roothost.py")
SEEN = "6dace06a8b886220f7782a4c458055ac87deebaded6b1d2d984aaf5a258d8dbc"
FORMAT = {"root": 1, "root.tar": 2}


def test_whoever_changes_how_roots_are_made_has_thought_of_their_keys() -> None:
    """Does the change leave other bytes in a root? Raise ROOT_FORMAT. Then record both here."""
    directory = Path(plan.__file__).parent
    now = hashlib.sha256(b"".join((directory / name).read_bytes() for name in MAKERS)).hexdigest()
    assert (now, ROOT_FORMAT) == (SEEN, FORMAT)
