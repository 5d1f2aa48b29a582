"""Whether the objects that patches touch compile: a sealed step of its own for each source line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from boardwright.build.plan import Plan, make
from boardwright.build.step import Input, Step
from boardwright.errors import InputError, Place, ProductError
from boardwright.kinds import environment, meson
from boardwright.kinds.context import Context, download, script
from boardwright.patches.lines import Line
from boardwright.patches.series import topics as topics_of
from boardwright.patches.staged import staged
from boardwright.schema.recipe import EnvironmentRecipe, KernelRecipe, MesonRecipe

if TYPE_CHECKING:
    from boardwright.build.executor import Builder

Inputs = Mapping[str, Input]

RESULT = "result.json"
FRAGMENT = "patches.config"
"""In ``recipes/linux``: what is configured; ``patches-<line>.config`` adds what only one line has."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object and what became of it, as :mod:`boardwright.sealed.patchcheck` says it."""

    name: str
    source: str
    topics: tuple[str, ...]
    state: str
    said: str

    @property
    def good(self) -> bool:
        return self.state in ("ok", "skipped")


def plan(context: Context, line: Line, topic: str) -> Plan:
    """The step that checks ``line``: all topics are applied; with ``topic`` those up to it, and its objects
    alone are compiled. Raises ``InputError``."""
    home = context.project.recipe(line.recipe.environment)
    if not isinstance(home, EnvironmentRecipe):
        place = Place(f"recipes/{line.recipe.environment}.yaml")
        raise InputError("expected a recipe of kind environment", place=place)
    patches = staged(context, line.collection, topics_of(context.root, line.collection), line.version)
    applied = patches.topics[: patches.topics.index(topic) + 1] if topic in patches.topics else patches.topics
    inputs = {name: given for name, given in patches.inputs.items() if name.split("/")[1] in applied}
    variables = {"TOPICS": " ".join(applied), "CHECKED": topic or " ".join(applied)}
    make_step = _kernel_step if isinstance(line.recipe, KernelRecipe) else _meson_step
    step = make_step(context, line, inputs, variables)
    return make([environment.step(context, home), step], [step.name])


def _kernel_step(context: Context, line: Line, patches: Inputs, variables: Mapping[str, str]) -> Step:
    fragments = [FRAGMENT, f"patches-{line.name}.config"]
    fragments = [name for name in fragments if (context.root / "recipes/linux" / name).exists()]
    inputs: dict[str, Input] = {"source": download(line.lock.files[0]), **patches}
    inputs |= {f"config/{name}": context.file(f"recipes/linux/{name}") for name in fragments}
    return Step(
        name=f"patch-check-{line.recipe.recipe}",
        title=f"the objects that patches of {line} touch",
        script=script("patch_check_kernel"),
        environment=line.recipe.environment,
        outputs=(RESULT,),
        inputs=inputs,
        variables={"CONFIG": " ".join(fragments), **variables},
        sealed=("kconfig.py", "patchcc.sh", "patchcheck.py", "patchtree.py"),
        kept_tree=f"patch-check-{line.recipe.recipe}",
        ccache=True,
    )


def _meson_step(context: Context, line: Line, patches: Inputs, variables: Mapping[str, str]) -> Step:
    recipe = line.recipe
    assert isinstance(recipe, MesonRecipe)
    own = meson.step(context, recipe)
    inputs = {name: given for name, given in own.inputs.items() if not name.startswith("patches/")}
    return msgspec.structs.replace(
        own,
        name=f"patch-check-{recipe.recipe}",
        title=f"the objects that patches of {line} touch",
        script=script("patch_check_meson"),
        outputs=(RESULT,),
        inputs={**inputs, **patches},
        variables=variables,
        epoch=0,
        sealed=(
            "debian_source.sh",
            "meson_cross.sh",
            "meson_setup.sh",
            "patchcc.sh",
            "patchcheck.py",
            "patchtree.py",
        ),
        kept_tree=f"patch-check-{recipe.recipe}",
    )


def check(plan: Plan, builder: Builder) -> list[Object]:
    """The verdicts, from the store when they are there. Raises ``ProductError`` when the step fails."""
    from boardwright.build import executor

    [name] = plan.targets
    try:
        entry = executor.build(plan, builder)[name]
    except ProductError as error:
        # Its hint names `invoke shell`, which knows the steps of boards only.
        raise ProductError(error.message, place=error.place) from error
    rows = json.loads((entry.out / RESULT).read_text(encoding="utf-8"))
    return [
        Object(row["object"], row["source"], tuple(row["topics"]), row["state"], row["said"]) for row in rows
    ]


def report(line: Line, objects: Sequence[Object]) -> Iterator[str]:
    """A row a topic, then every object that is not ok with what the compiler said."""
    topics = dict.fromkeys(topic for one in objects for topic in one.topics)
    for topic in topics:
        of = [one for one in objects if topic in one.topics]
        bad = sum(not one.good for one in of)
        skipped = sum(one.state == "skipped" for one in of)
        verdict = f"{bad} of {len(of)} objects fail" if bad else f"{len(of) - skipped} objects compile"
        left = f", {skipped} of other configurations skipped" if skipped else ""
        yield f"{line}  {topic}: {verdict}{left}"
    for one in objects:
        if one.state == "unreached":
            yield f"  {one.source}: this configuration does not compile it, with or without the patches"
            yield f"    add what it needs to recipes/linux/{FRAGMENT} or patches-{line.name}.config"
        elif not one.good:
            yield f"  {one.source}: {one.state}"
            yield from (f"    | {row}" for row in one.said.rstrip().splitlines()[:40])
