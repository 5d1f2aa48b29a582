"""Inputs put where the sandbox can bind them: downloads verified, templates rendered, files copied.

Files of the project are copied, so that a step sees what its key covers and nothing else of them: not the
modes that a checkout's umask gave them, not their times, and no change that is made while it runs.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
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
        place = scratch / "stage" / str(number)
        binds[f"/in/{name}"] = _place(given, place, outputs, download)
        if place.exists():
            _level(place, step.epoch)
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
        target.write_text(given.content, encoding="utf-8")
    elif isinstance(given, Rendered):
        _copy(given.path, target, given.digest)
        _render(target, Path(given.path), json.loads(given.variables))
    else:
        assert isinstance(given, LocalFile)
        _copy(given.path, target, given.digest)
    return target


def _copy(path: str, target: Path, expected: str) -> None:
    """Copy a file or tree of the project, and see that the copy is what the key was made from."""
    source = Path(path)
    try:
        for name, info in digest.walk(source):
            origin, made = source / name, target / name
            made.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_symlink():
                made.symlink_to(origin.readlink())
            elif origin.is_dir():
                made.mkdir(exist_ok=True)
            else:
                shutil.copyfile(origin, made)
                made.chmod(0o755 if info.st_mode & 0o100 else 0o644)
        if source.is_dir():
            target.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise _changed(path) from error
    if digest.of_tree(target) != expected:
        raise _changed(path)


def _changed(path: str) -> InputError:
    return InputError(f"{path} changed while the build was running", hint="run the build again")


def _level(root: Path, epoch: int) -> None:
    """The same modes and times on every host, from the deepest name to the root, whose times come last."""
    for path, info in [("", root.lstat()), *digest.walk(root)][::-1]:
        full = root / path
        if not full.is_symlink():
            full.chmod(0o755 if full.is_dir() or info.st_mode & 0o100 else 0o644)
        os.utime(full, (epoch, epoch), follow_symlinks=False)


def _render(root: Path, source: Path, variables: Mapping[str, object]) -> None:
    """Render every ``*.j2`` of ``root``, a copy of ``source``; they lose the suffix."""
    for path, info in list(digest.walk(root)):
        template, shown = root / path, source / path
        if shown.suffix == ".j2" and stat.S_ISREG(info.st_mode):
            text = rendered(template, shown, variables)
            template.write_text(text, encoding="utf-8")
            template.rename(root / path.removesuffix(".j2"))


@functools.cache
def _jinja() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)


def rendered(template: Path, shown: Path, variables: Mapping[str, object]) -> str:
    """What ``template`` becomes. Unknown variables are errors, which name ``shown``, the user's own file."""
    import jinja2

    try:
        return _jinja().from_string(template.read_text(encoding="utf-8")).render(variables)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"template: {error.message}", place=Place(str(shown), error.lineno)) from error
    except jinja2.UndefinedError as error:
        known = ", ".join(sorted(variables))
        raise InputError(
            f"template: {error.message}", place=Place(str(shown)), hint=f"it may use {known}"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("template: it is not UTF-8 text", place=Place(str(shown))) from error
