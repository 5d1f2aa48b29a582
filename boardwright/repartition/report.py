"""A plan for people: both layouts side by side, each step with its time and what a power cut in it means."""

from __future__ import annotations

from collections.abc import Iterator

from .parts import human
from .plan import BEFORE, PLANNED, RESUMES, Plan, Request

_MARK = {BEFORE: "before", RESUMES: "resumes", PLANNED: "planned"}


def duration(seconds: float) -> str:
    """``42 s``, ``7 min``, ``1 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def text(request: Request, plan: Plan) -> str:
    """Everything that ``--dry-run`` prints."""
    return "\n".join([*_layouts(request), "", *_operations(plan), "", *_promise(plan, request)]) + "\n"


def _layouts(request: Request) -> Iterator[str]:
    new = {wanted.part.name: wanted for wanted in request.wanted}
    yield f"{'partition':<12} {'now: from':>12} {'size':>10} {'in use':>10}   {'then: from':>12} {'size':>10}"
    for held in request.held:
        name, part = held.part.name, held.part
        row = f"{name:<12} {part.offset:>#12x} {human(part.size):>10} {human(held.used):>10}"
        if name not in new:
            yield f"{row}   {'deleted':>12}"
            continue
        after = new.pop(name)
        changed = "same" if after.part == part and not after.format else f"{after.part.offset:#x}"
        formatted = "  formatted" if after.format else ""
        yield f"{row}   {changed:>12} {human(after.part.size):>10}{formatted}"
    for name, after in new.items():
        formatted = "  formatted" if after.format else ""
        row = f"{name:<12} {'new':>12} {'':>10} {'':>10}"
        yield f"{row}   {after.part.offset:>#12x} {human(after.part.size):>10}{formatted}"


def _operations(plan: Plan) -> Iterator[str]:
    if not plan.operations:
        yield "nothing to do: the layouts are the same"
        return
    yield f"{'step':>4} {'time':>7}  {'power cut':<9} what"
    for number, operation in enumerate(plan.operations, start=1):
        time = duration(operation.seconds) if operation.seconds >= 0.5 else ""
        yield f"{number:>4} {time:>7}  {_MARK[operation.state]:<9} {operation.says}"


def _promise(plan: Plan, request: Request) -> Iterator[str]:
    yield f"about {duration(plan.seconds)}; {human(plan.stick)} of {human(request.stick)} free on the stick"
    yield "after a power cut in a step the board boots as before (before), resumes from its journal with the"
    yield "stick in it (resumes), or boots as planned (planned)"
    for warning in plan.warnings:
        yield f"note: {warning}"
