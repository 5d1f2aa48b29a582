"""Coverage-guided fuzzing of every parser with atheris.

``python tests/fuzz/fuzz_parsers.py CORPUS -max_total_time=600``; not part of the tests: it needs the package
atheris, and without a limit never ends. The first byte of an input chooses the parser; the corpus begins with
``tests/bringup/data/logs``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

with atheris.instrument_imports(include=["boardwright.bringup"]):
    from parsers import PARSERS

NAMES = sorted(PARSERS)


def one(data: bytes) -> None:
    if data:
        PARSERS[NAMES[data[0] % len(NAMES)]](data[1:])


def seed(directory: Path) -> None:
    """Each log file once for each parser."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "tests/bringup/data/logs").iterdir():
        for index in range(len(NAMES)):
            (directory / f"{path.name}-{index}").write_bytes(bytes([index]) + path.read_bytes())


if __name__ == "__main__":
    corpus = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if corpus is not None:
        seed(corpus)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
