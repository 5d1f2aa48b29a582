"""Runs the missing steps of a plan, side by side, into the store."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from boardwright.build import locks, run, sandbox
from boardwright.build import plan as plans
from boardwright.build.jobs import INSIDE, Jobs
from boardwright.build.plan import Plan, Planned
from boardwright.build.progress import Progress, short
from boardwright.build.stage import stage
from boardwright.build.step import Download, RootStep, Step
from boardwright.build.store import Entry, Store, host_error
from boardwright.errors import BoardwrightError, HostError, ProductError


@dataclass(frozen=True, slots=True)
class Builder:
    """Where a build works. ``clock`` (``+400d``) shifts what sealed steps take for the time, through
    libfaketime of their environment; it exists for ``invoke reproduce``, which varies what must not matter,
    and goes without kept trees and compiler cache."""

    cache: Path
    store: Store
    logs: Path
    progress: Progress
    jobs: int
    clock: str | None = None

    @property
    def downloads(self) -> Path:
        return self.cache / "downloads"


def missing(plan: Plan, store: Store) -> list[str]:
    """Names of the steps that must run for the targets to exist, in order."""
    needed: set[str] = set()

    def visit(name: str) -> None:
        if name not in needed and store.find(plan[name].key) is None:
            needed.add(name)
            for other in plan[name].needs:
                visit(other)

    for name in plan.targets:
        visit(name)
    return [name for name in plan.steps if name in needed]


def build(plan: Plan, builder: Builder) -> dict[str, Entry]:
    """Make every target of ``plan`` exist in the store; entries by step name.

    Raises ``ProductError`` when a step fails, ``HostError`` when the host or a mirror does; the other
    running steps are ended first. On Ctrl-C all children are gone before ``KeyboardInterrupt`` goes on.
    """
    todo = missing(plan, builder.store)
    if todo:
        sandbox.require()
        _make_directory(builder.logs)
        with _in_use(builder.downloads):
            _fetch([download for name in todo for download in plans.downloads(plan[name].step)], builder)
            with builder.store.scratch("jobserver") as directory, builder.progress:
                _run_all(plan, todo, builder, Jobs(builder.jobs, directory))
    for planned in plan.steps.values():
        builder.store.touch(planned.key)
    return {name: _entry(plan, name, builder) for name in plan.targets}


def _entry(plan: Plan, name: str, builder: Builder) -> Entry:
    entry = builder.store.find(plan[name].key)
    if entry is None:
        raise HostError(
            f"the store entry of step {name} is gone, though it was made", hint="run the build again"
        )
    return entry


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise host_error(error, path) from error


@contextlib.contextmanager
def _in_use(directory: Path) -> Iterator[None]:
    """Keep ``invoke store --gc`` from removing a directory of the cache while a build works with it."""
    _make_directory(directory)
    held = locks.use(directory)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _fetch(downloads: list[Download], builder: Builder) -> None:
    if not downloads:
        return
    from boardwright.build.fetch import fetch
    from boardwright.build.mirror import mirrors

    fetch(downloads, builder.downloads, mirrors(), builder.progress.note)


def _run_all(plan: Plan, todo: list[str], builder: Builder, jobs: Jobs) -> None:
    waiting, running = list(todo), dict[Future[None], str]()
    done = {name for name in plan.steps if name not in todo}
    pool = ThreadPoolExecutor(max_workers=max(2, len(todo)))
    try:
        while waiting or running:
            for name in [name for name in waiting if done.issuperset(plan[name].needs)]:
                waiting.remove(name)
                running[pool.submit(_run_one, plan[name], plan, builder, jobs)] = name
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done.add(running.pop(future))
                future.result()
    except BaseException:
        run.stop_all()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        pool.shutdown()
        run.resume()
        jobs.close()


def _run_one(planned: Planned, plan: Plan, builder: Builder, jobs: Jobs) -> None:
    """Run one step unless another process made it meanwhile."""
    step = planned.step
    with builder.store.locked(planned.key, run.pause), jobs.one():
        if run.stopping():
            raise run.Stopped
        if builder.store.find(planned.key):
            return
        since = time.monotonic()
        builder.progress.started(step.name, step.title)
        try:
            with builder.store.scratch(planned.key) as scratch:
                _make(step, plan, builder, jobs, scratch)
                builder.store.commit(planned.key, scratch, step.name, planned.record)
        except OSError as error:
            builder.progress.failed(step.name, time.monotonic() - since)
            raise host_error(error, builder.store.directory) from error
        except run.Stopped:
            raise
        except BaseException:
            builder.progress.failed(step.name, time.monotonic() - since)
            raise
        builder.progress.finished(step.name, time.monotonic() - since)


def _make(step: Step | RootStep, plan: Plan, builder: Builder, jobs: Jobs, scratch: Path) -> None:
    log = scratch / "log"
    log.touch()
    try:
        if isinstance(step, RootStep):
            _make_root(step, plan, builder, scratch, log)
        else:
            _make_sealed(step, plan, builder, jobs, scratch, log)
    finally:
        with contextlib.suppress(OSError):
            shutil.copyfile(log, builder.logs / f"{step.name}.log")
    absent = [name for name in step.outputs if not (scratch / "out" / name).exists()]
    if absent:
        raise ProductError(f"step {step.name} ended well without its declared output {', '.join(absent)}")


def _make_root(step: RootStep, plan: Plan, builder: Builder, scratch: Path, log: Path) -> None:
    from boardwright.build.roots import make_root

    (scratch / "out").mkdir()
    built = {deb: _entry(plan, deb.output.step, builder).out / deb.output.path for deb in step.built}
    make_root(
        step,
        builder.downloads,
        scratch / "out" / step.output,
        log,
        lambda text: builder.progress.line(step.name, text),
        built,
    )


def _make_sealed(step: Step, plan: Plan, builder: Builder, jobs: Jobs, scratch: Path, log: Path) -> None:
    with contextlib.ExitStack() as held:
        tree = held.enter_context(_kept_tree(step, builder, scratch))
        writable = {INSIDE: jobs.path}
        if tree:
            writable["/tree"] = tree
        if step.ccache:
            held.enter_context(_in_use(builder.cache / "ccache"))
            writable["/cache/ccache"] = builder.cache / "ccache"
        clock = _clock(_entry(plan, step.environment, builder).out / "root", builder)
        seal = sealed(step, plan, builder, scratch, writable, {**jobs.variables(), **clock})
        command = sandbox.argv(seal, ["/bin/bash", "-euo", "pipefail", "/step"])
        status = run.run(command, log, line=lambda text: builder.progress.line(step.name, text))
    if status != 0:
        raise _failure(step, status, log, builder)


def sealed(
    step: Step,
    plan: Plan,
    builder: Builder,
    scratch: Path,
    writable: Mapping[str, Path],
    variables: Mapping[str, str],
) -> sandbox.Seal:
    """What a step sees, made in ``scratch``: its inputs, its script at ``/step``, ``/work`` and ``/out``."""
    from boardwright.build.downloads import verified

    outputs = {name: _entry(plan, name, builder).out for name in plan[step.name].needs}
    for name in ("work", "out"):
        (scratch / name).mkdir()
        (scratch / name).chmod(0o755)
    (scratch / "script").write_text(step.script, encoding="utf-8")
    (scratch / "script").chmod(0o644)
    read_only = stage(step, scratch, outputs, lambda wanted: verified(wanted, builder.downloads))
    return sandbox.Seal(
        outputs[step.environment] / "root",
        {**read_only, "/step": scratch / "script"},
        {"/work": scratch / "work", "/out": scratch / "out", **writable},
        {**_fixed_variables(step), **variables},
        "/work",
    )


def _fixed_variables(step: Step) -> dict[str, str]:
    """The variables of a sealed step that are the same on every host."""
    fixed = {"SOURCE_DATE_EPOCH": str(step.epoch), "PYTHONDONTWRITEBYTECODE": "1", **step.variables}
    return {**fixed, "CCACHE_DIR": "/cache/ccache"} if step.ccache else fixed


def _clock(root: Path, builder: Builder) -> dict[str, str]:
    if builder.clock is None:
        return {}
    found = next(root.glob("usr/lib/*/faketime/libfaketime.so.1"), None)
    library = {"LD_PRELOAD": f"/{found.relative_to(root)}", "FAKETIME": builder.clock} if found else {}
    return {**library, "NO_FAKE_STAT": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@contextlib.contextmanager
def _kept_tree(step: Step, builder: Builder, scratch: Path) -> Iterator[Path | None]:
    """The directory a step keeps between builds, locked; a fresh one when trees are not kept."""
    if step.kept_tree is None:
        yield None
        return
    tree = builder.cache / "trees" / step.kept_tree if builder.clock is None else scratch / "tree"
    with builder.store.locked(f"tree-{step.kept_tree}", run.pause), _in_use(tree):
        yield tree


def _failure(step: Step, status: int, log: Path, builder: Builder) -> BoardwrightError:
    tail = run.tail(log)
    shown = "\n".join(f"  | {line}" for line in tail)
    where = builder.logs / f"{step.name}.log"
    message = f"step {step.name} failed with exit status {status}; the last lines of {short(where)}:\n{shown}"
    if any("No space left on device" in line for line in tail):
        return HostError(message, hint=f"the disk of {builder.store.directory} is full: make room there")
    return ProductError(message, hint=f"`invoke shell --step {step.name}` opens a shell where it ran")


def default_jobs() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))
