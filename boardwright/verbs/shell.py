"""``invoke shell``: a terminal in the sandbox of a step, with its inputs staged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from boardwright.build import executor, sandbox
from boardwright.build.step import Step
from boardwright.errors import InputError
from boardwright.verbs.build import builder
from boardwright.verbs.common import request, say


def shell(root: Path, name: str, board: str, variant: str) -> int:
    """Build what ``name`` needs, then open bash where it would run; changes are thrown away."""
    asked = request(root, board, variant)
    plan = asked.plan(name)
    step = plan[name].step
    if not isinstance(step, Step):
        raise InputError(f"step {name} makes a root and has no sandbox", hint="name a step that runs in one")
    work = builder(asked)
    executor.build(plan.towards(plan[name].needs), work)
    with work.store.scratch(plan[name].key) as scratch:
        (scratch / "tree").mkdir()
        variables = {"JOBS": str(work.jobs), "TERM": os.environ.get("TERM", "dumb")}
        seal = executor.sealed(step, plan, work, scratch, {"/tree": scratch / "tree"}, variables)
        say("the step is /step: run it with bash -euo pipefail /step")
        say(f"its inputs are {', '.join(sorted(path for path in seal.read_only if path != '/step'))}")
        return subprocess.run(sandbox.argv(seal, ["/bin/bash", "-i"]), check=False).returncode
