"""``invoke reproduce``: the same build again where everything that must not matter is different.

The second build is a real ``invoke build`` of a copy of the project in another directory, with an empty
cache (downloads are shared: they are verified), no compiler cache, no kept trees, another host name,
umask, time zone, locale, home, job count, and a clock 400 days ahead inside the steps. Keys must be equal
and so must every output; on a difference the first step that differs, in the order of the plan, is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import executor, sandbox
from boardwright.build.plan import Plan
from boardwright.build.store import Entry, Store, cache_directory, remove_tree
from boardwright.errors import HostError, ProductError
from boardwright.verbs.build import builder, environment
from boardwright.verbs.common import Request, request, say

COMPARE = "tools-compare"
COPIED = ("tasks.py", "boardwright", "boards", "recipes", "patches", "overlays", "native", "local.yaml")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first file of the first step that came out different; None where one build lacks it."""

    step: str
    path: str
    first: Path | None
    second: Path | None


def reproduce(root: Path, board: str, variant: str, step: str) -> int:
    """Build (or take from the store), build again elsewhere, compare. Exit status 1 on a difference."""
    asked = request(root, board, variant)
    plan = asked.plan(*step.split(",")) if step else asked.plan()
    work = builder(asked)
    # Every step, for entries that a finished image no longer needs are compared too.
    executor.build(plan.towards(plan.steps), work)
    place = Path(tempfile.mkdtemp(prefix="reproduce.", dir=cache_directory()))
    try:
        second = _build_elsewhere(asked, plan, place)
        compared = list(_compare(plan, work.store, second))
        for name, difference in compared:
            say(f"  {name}: {'identical' if difference is None else f'differs in {difference.path}'}")
        first = next((difference for _, difference in compared if difference), None)
        if first is None:
            say(f"{len(compared)} steps built twice, every output identical")
            return 0
        raise ProductError(
            f"step {first.step} is not reproducible: {first.path} differs, its inputs do not\n"
            f"{_view(first, asked)}"
        )
    finally:
        remove_tree(place)


def _build_elsewhere(asked: Request, plan: Plan, place: Path) -> Store:
    """Run ``invoke build`` on a copy of the project under other conditions; the store it filled."""
    project, cache = place / "another" / "path", place / "cache"
    project.mkdir(parents=True)
    cache.mkdir()
    for name in COPIED:
        source = asked.project.root / name
        if source.is_dir():
            shutil.copytree(
                source, project / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif source.exists():
            shutil.copy2(source, project / name)
    (cache / "downloads").symlink_to(cache_directory() / "downloads")
    command = [sys.executable, "-m", "invoke", "build", "--board", asked.board_name, "--every-step"]
    command += [
        "--jobs",
        str(executor.default_jobs() + 1),
        *(["--variant", asked.variant] if asked.variant else []),
    ]
    command += ["--step", ",".join(plan.targets)]
    say(f"building again in {project}, under other conditions")
    status = subprocess.run(
        _elsewhere(command), cwd=project, env=_other_conditions(cache), umask=0o077, check=False
    ).returncode
    if status:
        raise HostError(f"the second build ended with exit status {status}; its messages stand above")
    return Store(cache / "store")


def _elsewhere(command: list[str]) -> list[str]:
    """Another host name needs root; without it the sandbox's own fixed name must do."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return command
    return ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *command]


def _other_conditions(cache: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("BOARDWRIGHT_", "PATH", "http"))
    }
    return {
        **kept,
        "BOARDWRIGHT_CACHE": str(cache),
        "BOARDWRIGHT_CLOCK": "+400d",
        "HOME": str(cache),
        "TZ": "Pacific/Kiritimati",
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "tr_TR.UTF-8",
    }


def _compare(plan: Plan, first: Store, second: Store) -> Iterator[tuple[str, Difference | None]]:
    for name, planned in plan.steps.items():
        entries = [store.find(planned.key) for store in (first, second)]
        if entries[1] is None:
            raise ProductError(
                f"the second build has another key for step {name}: something undeclared is in it"
            )
        assert entries[0] is not None
        yield name, _difference(name, entries[0], entries[1])


def _difference(step: str, first: Entry, second: Entry) -> Difference | None:
    rows = [_rows(entry) for entry in (first, second)]
    for path in sorted({*rows[0], *rows[1]}):
        if rows[0].get(path) != rows[1].get(path):
            places = [
                entry.out / path if path in row else None
                for entry, row in zip((first, second), rows, strict=True)
            ]
            return Difference(step, path, *places)
    return None


def _rows(entry: Entry) -> Mapping[str, object]:
    return {row[0]: row for row in entry.description()["files"]}


def _view(difference: Difference, asked: Request) -> str:
    """diffoscope's view of the two files, from an environment made for it now."""
    if difference.first is None or difference.second is None:
        return f"only the {'second' if difference.first is None else 'first'} build has it"
    seal = sandbox.Seal(
        environment(asked, COMPARE), {"/first": difference.first, "/second": difference.second}
    )
    command = ["diffoscope", "--max-report-size", "20000", "--no-progress", "/first", "/second"]
    shown = subprocess.run(sandbox.argv(seal, command), capture_output=True, text=True, check=False)
    return shown.stdout or f"diffoscope ended with {shown.returncode}: {shown.stderr[-2000:]}"
