"""``invoke shell``: a terminal in the sandbox of a step, with its inputs staged."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from boardwright.build import executor, sandbox
from boardwright.build.fetch import verified
from boardwright.build.plan import Plan
from boardwright.build.stage import stage
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
    executor.build(Plan(plan.steps, plan[name].needs), work)
    outputs = {}
    for other in plan[name].needs:
        entry = work.store.find(plan[other].key)
        assert entry is not None
        outputs[other] = entry.out
    with work.store.scratch(plan[name].key) as scratch:
        for directory in ("work", "out", "tree"):
            (scratch / directory).mkdir()
        (scratch / "script").write_text(step.script)
        binds = stage(step, scratch, outputs, lambda wanted: verified(wanted, work.downloads))
        writable = {f"/{directory}": scratch / directory for directory in ("work", "out", "tree")}
        variables = {
            **executor.fixed_variables(step),
            "JOBS": str(work.jobs),
            "TERM": os.environ.get("TERM", "dumb"),
        }
        seal = sandbox.Seal(
            outputs[step.environment] / "root",
            {**binds, "/step": scratch / "script"},
            writable,
            variables,
            "/work",
        )
        say("the step is /step: run it with bash -euo pipefail /step")
        say(f"its inputs are {', '.join(sorted(binds))}")
        return subprocess.run(sandbox.argv(seal, ["/bin/bash", "-i"]), check=False).returncode
