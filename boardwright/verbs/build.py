"""``invoke build``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build.plan import Plan
from boardwright.build.publish import Artifact, is_current
from boardwright.image.names import has_no_table
from boardwright.kinds import debs
from boardwright.verbs.common import Request, open_store, request, say

if TYPE_CHECKING:
    from boardwright.build.executor import Builder


def build(root: Path, board: str, variant: str, jobs: int, step: str, every_step: bool = False) -> int:
    """Build and publish; with ``step`` only those steps, into the store."""
    asked = request(root, board, variant)
    plan = asked.plan(*step.split(",")) if step else asked.plan()
    if every_step:
        plan = plan.towards(plan.steps)
    artifacts = published(asked)
    if not step and not every_step and is_current(plan, artifacts, asked.out):
        say(f"{asked.out.relative_to(root)}: up to date, nothing to do")
        return 0
    _build(asked, plan, jobs, publishing=not step and not every_step)
    return 0


def published(asked: Request) -> list[Artifact]:
    """What ``out/<board>/`` holds."""
    board, kernel = asked.board_name, asked.context.board.kernel.recipe
    if has_no_table(asked.context.board):
        from boardwright.kinds import emmc

        disk = [Artifact(emmc.disk_name(asked.context), emmc.DISK, emmc.disk_name(asked.context))]
        root_image = emmc.part_file(emmc.table(asked.context).holding("rootfs").name)
        disk.append(Artifact(root_image, emmc.PARTS, root_image))
    else:
        disk = [
            Artifact(f"{board}.img", "image", f"{board}.img"),
            Artifact(f"{board}.bmap", "image", f"{board}.bmap"),
            Artifact(f"{board}.img.zst", "image-zst", f"{board}.img.zst"),
        ]
    root = asked.context.board.rootfs.recipe
    built = getattr(asked.context.project.recipe(root), "built", [])
    return [
        *disk,
        Artifact("kernel.config", kernel, "config"),
        Artifact("System.map", kernel, "System.map"),
        Artifact("packages.json", root, "packages.json"),
        *(Artifact(deb, name, deb) for name, deb in debs.made(asked.context, built)),
    ]


def builder(asked: Request, jobs: int = 0) -> Builder:
    """A builder for this request, with progress on stderr."""
    from boardwright.build import executor
    from boardwright.build.progress import for_terminal
    from boardwright.build.store import cache_directory

    return executor.Builder(
        cache=cache_directory(),
        store=open_store(),
        logs=asked.out / "logs",
        progress=for_terminal(),
        jobs=jobs or executor.default_jobs(),
        clock=os.environ.get("BOARDWRIGHT_CLOCK"),
    )


def environment(asked: Request, name: str) -> Path:
    """The root of an environment, made when it is missing."""
    from boardwright.build import executor

    return executor.build(asked.plan(name), builder(asked))[name].out / "root"


def _build(asked: Request, plan: Plan, jobs: int, *, publishing: bool) -> None:
    import time

    from boardwright.build import executor
    from boardwright.build.progress import duration

    since = time.monotonic()
    entries = executor.build(plan, builder(asked, jobs))
    if publishing:
        from boardwright.build.publish import describe, publish
        from boardwright.verbs.summary import describe_request, summary

        manifest = describe(plan, entries, describe_request(asked, entries), asked.project.root)
        publish(plan, entries, published(asked), manifest, asked.out)
        image = published(asked)[0]
        say(summary(asked, manifest, entries[image.step].digests()[image.path]))
    say(f"done in {duration(time.monotonic() - since)}")
