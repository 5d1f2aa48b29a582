"""Inputs put where the sandbox can bind them: downloads verified, templates rendered, texts written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from boardwright.build import digest
from boardwright.build.plan import SEALED
from boardwright.build.step import Download, Input, LocalFile, Output, Rendered, Step, Text
from boardwright.errors import InputError, Place

if TYPE_CHECKING:
    import jinja2


def stage(
    step: Step, scratch: Path, outputs: Mapping[str, Path], download: Callable[[Download], Path]
) -> dict[str, Path]:
    """Paths inside the sandbox to paths outside, for every input of ``step``.

    ``outputs`` maps step names to the ``out`` directories of their store entries. Raises ``InputError``
    when a project file changed between planning and staging, or a template does not render.
    """
    binds: dict[str, Path] = {}
    for number, (name, given) in enumerate(step.inputs.items()):
        binds[f"/in/{name}"] = _place(given, scratch / "stage" / str(number), outputs, download)
    for name in step.sealed:
        binds[f"/in/sealed/{name}"] = SEALED / name
    return binds


def _place(
    given: Input, target: Path, outputs: Mapping[str, Path], download: Callable[[Download], Path]
) -> Path:
    if isinstance(given, Output):
        path = outputs[given.step] / given.path
        if not path.exists():
            raise InputError(f"step {given.step} has no output {given.path!r}")
        return path
    if isinstance(given, Download):
        return download(given)
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(given, Text):
        target.write_text(given.content)
    elif isinstance(given, Rendered):
        _unchanged(given.path, given.digest)
        render(Path(given.path), target, json.loads(given.variables))
    else:
        assert isinstance(given, LocalFile)
        _unchanged(given.path, given.digest)
        return Path(given.path)
    return target


def _unchanged(path: str, expected: str) -> None:
    if digest.of_tree(path) != expected:
        raise InputError(f"{path} changed while the build was running", hint="run the build again")


def render(source: Path, target: Path, variables: Mapping[str, object]) -> None:
    """Copy a file or tree; ``*.j2`` are rendered and lose the suffix. Unknown variables are errors."""
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    for path, info in digest.walk(source):
        origin, made = source / path, target / path.removesuffix(".j2") if path else target
        made.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_symlink():
            made.symlink_to(origin.readlink())
        elif origin.is_dir():
            made.mkdir(exist_ok=True)
        elif origin.suffix == ".j2":
            made.write_text(_rendered(environment, origin, variables))
            made.chmod(0o755 if info.st_mode & 0o100 else 0o644)
        else:
            made.write_bytes(origin.read_bytes())
            made.chmod(0o755 if info.st_mode & 0o100 else 0o644)


def _rendered(environment: jinja2.Environment, origin: Path, variables: Mapping[str, object]) -> str:
    import jinja2

    try:
        return environment.from_string(origin.read_text()).render(variables)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"template: {error.message}", place=Place(str(origin), error.lineno)) from error
    except jinja2.UndefinedError as error:
        known = ", ".join(sorted(variables))
        raise InputError(
            f"template: {error.message}", place=Place(str(origin)), hint=f"it may use {known}"
        ) from error
