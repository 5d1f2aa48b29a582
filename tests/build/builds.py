"""Small real builds: plans of bash scripts, and a root of the host's own bash and coreutils to run them in.

As a program (``builds.py CACHE PLAN.json [JOBS]``) it builds a plan as a verb does, for tests that kill it.
With the variable BUILDS_PEAK it ends with how much memory it took.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from boardwright.build import executor, plan
from boardwright.build.progress import Progress
from boardwright.build.step import AnyStep, Input, Output, RootStep, Step
from boardwright.build.store import Entry, Store

PROGRAMS = (
    *(
        "bash",
        "cat",
        "chmod",
        "chown",
        "cp",
        "date",
        "dd",
        "env",
        "head",
        "id",
        "ln",
        "ls",
        "mkdir",
        "mkfifo",
    ),
    *("mv", "od", "rm", "seq", "setsid", "sha256sum", "sleep", "stat", "tail", "tee", "touch", "tr"),
    *("truncate", "uname", "wc"),
)
PROJECT = Path(__file__).parents[2]
ROOT = RootStep("tools", "the host's own bash and coreutils", "amd64", (), "root")


def make_root(root: Path) -> Path:
    """A root with :data:`PROGRAMS` and the libraries they name."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0:root:/work:/bin/bash\n")
    (root / "bin").symlink_to("usr/bin")
    shutil.copytree("/usr/lib/locale/C.utf8", root / "usr/lib/locale/C.utf8")
    for program in PROGRAMS:
        found = shutil.which(program, path="/usr/bin:/bin")
        assert found, f"these tests need {program}"
        shutil.copy(found, root / "usr/bin" / program)
        for library in _libraries(found):
            target = root / library.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(library, target)
    return root


def _libraries(program: str) -> Iterator[Path]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    yield from (Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+)", said, re.MULTILINE))


def step(name: str, script: str, /, *outputs: str, **more: object) -> Step:
    """A step in the tiny root, of a key of its own: a second step with the same script would not run."""
    script = f"# {name}\n{script}"
    return Step(name, f"makes {name}", script, "tools", outputs or ("made",), **more)  # type: ignore[arg-type]


def chain(scripts: Mapping[str, str]) -> list[Step]:
    """Steps each of which has the ``made`` of the one before as ``/in/before``."""
    steps: list[Step] = []
    for name, script in scripts.items():
        inputs: dict[str, Input] = {"before": Output(steps[-1].name, "made")} if steps else {}
        steps.append(step(name, script, inputs=inputs))
    return steps


def plan_of(*steps: AnyStep, targets: Sequence[str] = ()) -> plan.Plan:
    """A plan of the tiny root and ``steps``, all of which are wanted unless ``targets`` says which."""
    return plan.make([ROOT, *steps], targets or [one.name for one in steps])


@dataclass
class Bench:
    """A cache that already holds the tiny root, and builds in it."""

    cache: Path
    notes: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=lambda: Recorder())
    program: tuple[str, ...] = ("env", f"PYTHONPATH={PROJECT}", sys.executable, __file__)
    """What :meth:`child` runs."""

    @property
    def store(self) -> Store:
        """The store as a new process would open it."""
        return Store(self.cache / "store", note=self.notes.append)

    @property
    def logs(self) -> Path:
        return self.cache.parent / "logs"

    def put_root(self, root: Path) -> None:
        planned = plan.make([ROOT], ["tools"])["tools"]
        store = self.store
        with store.locked(planned.key), store.scratch(planned.key) as scratch:
            (scratch / "out").mkdir()
            shutil.copytree(root, scratch / "out" / "root", symlinks=True)
            store.commit(planned.key, scratch, "tools", planned.record)

    def builder(self, jobs: int = 2, store: Store | None = None) -> executor.Builder:
        return executor.Builder(self.cache, store or self.store, self.logs, self.progress, jobs)

    def build(self, *steps: AnyStep, jobs: int = 2) -> dict[str, Entry]:
        with contextlib.closing(self.store) as store:
            return executor.build(plan_of(*steps), self.builder(jobs, store))

    def made(self, script: str, **more: object) -> str:
        """What a one-step build of ``script`` left in ``/out/made``."""
        entry = self.build(step("only", script, **more))["only"]
        return (entry.out / "made").read_text()

    def child(self, *steps: Step, jobs: int = 2, prefix: Sequence[str] = ()) -> list[str]:
        """The command that builds ``steps`` in a process of its own."""
        given = self.cache.parent / "plan.json"
        given.write_text(json.dumps([_as_json(one) for one in steps]))
        return [*prefix, *self.program, str(self.cache), str(given), str(jobs)]

    def left_over(self) -> list[str]:
        """Names of what is being made, or was left half-made."""
        return sorted(path.name for path in (self.cache / "store" / "making").iterdir())


class Recorder(Progress):
    """Progress that remembers when steps started and ended."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, float]] = []
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def started(self, step: str, title: str) -> None:
        assert title
        self.events.append(("started", step, time.monotonic()))

    def finished(self, step: str, seconds: float) -> None:
        assert seconds >= 0
        self.events.append(("finished", step, time.monotonic()))

    def failed(self, step: str, seconds: float) -> None:
        assert seconds >= 0
        self.events.append(("failed", step, time.monotonic()))

    def names(self, what: str) -> list[str]:
        return [step for event, step, _ in self.events if event == what]


def wait_for(happened: Callable[[], object], seconds: float = 20.0, *, what: str) -> None:
    """Wait until ``happened`` says so, for a bounded time."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def processes_of(place: Path) -> list[str]:
    """Command lines of processes that have anything below ``place`` as an argument or a mount."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            mounts = (directory / "mountinfo").read_text()
        except OSError:
            continue
        if str(place) in command or f"{place}/" in mounts:
            found.append(f"{directory.name} {command}")
    return found


def _as_json(one: Step) -> dict[str, object]:
    inputs = {
        name: [given.step, given.path] for name, given in one.inputs.items() if isinstance(given, Output)
    }
    return {
        "name": one.name,
        "script": one.script,
        "outputs": one.outputs,
        "inputs": inputs,
        "kept_tree": one.kept_tree,
    }


def _from_json(one: dict[str, Any]) -> Step:
    inputs = {name: Output(*given) for name, given in one["inputs"].items()}
    script = one["script"].split("\n", 1)[1]
    return step(one["name"], script, *one["outputs"], inputs=inputs, kept_tree=one["kept_tree"])


def main(cache: str, given: str, jobs: str = "2") -> None:
    from invoke.context import Context
    from invoke.exceptions import Exit

    from boardwright.build.progress import for_terminal
    from boardwright.cli import verb

    @verb
    def build(_: Context) -> int:
        steps = [_from_json(one) for one in json.loads(Path(given).read_text())]
        store = Store(Path(cache) / "store", note=lambda text: print(text, file=sys.stderr))
        builder = executor.Builder(Path(cache), store, Path(cache).parent / "logs", for_terminal(), int(jobs))
        for name, entry in executor.build(plan_of(*steps), builder).items():
            print(name, json.dumps(entry.digests(), sort_keys=True))
        return 0

    try:
        build(Context())
    except Exit as end:
        sys.exit(end.code)
    finally:
        if "BUILDS_PEAK" in os.environ:
            print(_peak())


def _peak() -> int:
    """Most kilobytes that this program held; ru_maxrss would count the process it was forked from too."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
