"""``invoke test``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOLS = {
    "BOARDWRIGHT_TEST_TOOLS": "tools-image",
    "BOARDWRIGHT_TEST_QEMU": "tools-qemu",
    "BOARDWRIGHT_TEST_CROSS": "tools-mesa",
}
"""Where tests find the environments whose real programs they run."""

REPEATABLE = "--hypothesis-profile=ci"
"""The same examples each time: the same code gets the same verdict. `pytest` alone looks for new ones."""


def test(root: Path, e2e: bool, select: str, slow: bool) -> int:
    """Run pytest on the project: all but the slow tier, or without the end-to-end tests.

    The tool environments are made first, so that nothing is skipped for want of mke2fs or QEMU.
    """
    marks = [mark for mark, wanted in (("not slow", slow), ("not e2e", e2e)) if not wanted]
    command = [sys.executable, "-m", "pytest", "-ra", REPEATABLE, *(["-k", select] if select else [])]
    command += ["-m", " and ".join(marks)] if marks else []
    return subprocess.run(
        command, cwd=root, env={**os.environ, **_environments(root)}, check=False
    ).returncode


def _environments(root: Path) -> dict[str, str]:
    from boardwright.build import executor
    from boardwright.verbs.build import builder
    from boardwright.verbs.common import request

    asked = request(root, "rock5b", "")
    plan = asked.plan(*TOOLS.values())
    entries = executor.build(plan, builder(asked))
    return {variable: str(entries[name].out / "root") for variable, name in TOOLS.items()}
