"""Files that patches create, taken out of the patches: code that is tried without the tree it belongs to.

``newfiles --patches DIR --to DIR PATH...``: each PATH from the first patch below DIR, in the order of names,
whose diff creates it; ports to other lines (``NNNN-slug.<line>.patch``) come last. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path


def created(patch: str, path: str) -> str | None:
    """The text of ``path`` when the patch creates it, else None."""
    lines = iter(patch.splitlines())
    before = ""
    for line in lines:
        if before == "--- /dev/null" and line.split("\t")[0] == f"+++ b/{path}":
            return _added(lines)
        before = line.split("\t")[0]
    return None


def is_port(name: str) -> bool:
    """Whether a patch is the text of one line of the source only."""
    return re.search(r"\.\d+\.\d+\.patch$", name) is not None


def _added(lines: Iterable[str]) -> str:
    """The lines of the one hunk of a new file."""
    text: list[str] = []
    left = 0
    for line in lines:
        if line.startswith("@@"):
            left = int(line.split("+")[1].split()[0].partition(",")[2] or "1")
        elif left and line.startswith("+"):
            text.append(line[1:])
            left -= 1
        if text and not left:
            break
    return "".join(f"{line}\n" for line in text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--patches", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    patches = sorted(options.patches.rglob("*.patch"), key=lambda file: (is_port(file.name), file))
    for path in options.paths:
        texts = (created(patch.read_text(), path) for patch in patches)
        text = next((text for text in texts if text is not None), None)
        if text is None:
            sys.exit(f"error: no patch of {', '.join(p.name for p in patches) or 'none'} creates {path}")
        (options.to / Path(path).name).write_text(text)


if __name__ == "__main__":
    main()
