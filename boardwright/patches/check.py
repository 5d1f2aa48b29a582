"""Whether the objects that patches touch compile: a sealed step of its own for each source line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from boardwright.build.plan import Plan, make
from boardwright.build.step import Input, Step
from boardwright.errors import InputError, Place
from boardwright.kinds import environment
from boardwright.kinds.context import Context, download, script
from boardwright.patches.lines import Line
from boardwright.patches.series import topics as topics_of
from boardwright.patches.staged import staged
from boardwright.schema.recipe import EnvironmentRecipe, KernelRecipe

if TYPE_CHECKING:
    from boardwright.build.executor import Builder

RESULT = "result.json"
FRAGMENT = "patches.config"
"""In ``recipes/linux``: what is configured; ``patches-<line>.config`` adds what only one line has."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object and what became of it: ``ok``, ``warning``, ``error`` or ``unreached``."""

    name: str
    source: str
    topics: tuple[str, ...]
    state: str
    said: str


def plan(context: Context, line: Line, topic: str) -> Plan:
    """The step that checks ``line``: all topics are applied; with ``topic`` those up to it, and it alone
    is compiled. Raises ``InputError``."""
    recipe = line.recipe
    assert isinstance(recipe, KernelRecipe)
    home = context.project.recipe(recipe.environment)
    if not isinstance(home, EnvironmentRecipe):
        raise InputError("expected an environment", place=Place(f"recipes/{recipe.environment}.yaml"))
    step = _kernel_step(context, line, topic)
    return make([environment.step(context, home), step], [step.name])


def _kernel_step(context: Context, line: Line, topic: str) -> Step:
    asked = staged(context, line.collection, topics_of(context.root, line.collection), line.version)
    applied = asked.topics[: asked.topics.index(topic) + 1] if topic in asked.topics else asked.topics
    fragments = [FRAGMENT, f"patches-{line.name}.config"]
    fragments = [name for name in fragments if (context.root / "recipes/linux" / name).exists()]
    inputs: dict[str, Input] = {"source": download(line.lock.files[0])}
    inputs |= {f"config/{name}": context.file(f"recipes/linux/{name}") for name in fragments}
    inputs |= {name: given for name, given in asked.inputs.items() if name.split("/")[1] in applied}
    return Step(
        name=f"patch-check-{line.recipe.recipe}",
        title=f"objects that {topic or 'the patches'} of {line} touch{'es' if topic else ''}",
        script=script("patch_check"),
        environment=line.recipe.environment,
        outputs=(RESULT,),
        inputs=inputs,
        variables={
            "CONFIG": " ".join(fragments),
            "TOPICS": " ".join(applied),
            "CHECKED": topic or " ".join(applied),
        },
        sealed=("kconfig.py", "patchcheck.py", "patchtree.py"),
        kept_tree=f"patch-check-{line.recipe.recipe}",
        ccache=True,
    )


def check(plan: Plan, builder: Builder) -> list[Object]:
    """The verdicts, from the store when they are there. Raises ``ProductError`` when the step fails."""
    from boardwright.build import executor

    [name] = plan.targets
    rows = json.loads((executor.build(plan, builder)[name].out / RESULT).read_text(encoding="utf-8"))
    return [
        Object(row["object"], row["source"], tuple(row["topics"]), row["state"], row["said"]) for row in rows
    ]


def report(line: Line, objects: Sequence[Object]) -> Iterator[str]:
    """A row a topic, then every object that is not ok with what the compiler said."""
    topics = dict.fromkeys(topic for one in objects for topic in one.topics)
    for topic in topics:
        of = [one for one in objects if topic in one.topics]
        bad = [one for one in of if one.state != "ok"]
        verdict = f"{len(bad)} of {len(of)} objects fail" if bad else f"{len(of)} objects compile"
        yield f"{line}  {topic}: {verdict}"
    for one in objects:
        if one.state == "unreached":
            yield f"  {one.source}: the configuration does not compile it"
            yield f"    add what it needs to recipes/linux/{FRAGMENT} or patches-{line.name}.config"
        elif one.state != "ok":
            yield f"  {one.source}: {one.state}"
            yield from (f"    | {row}" for row in one.said.rstrip().splitlines()[:40])
