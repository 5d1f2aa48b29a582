"""Several files of a directory changed together: all of them, or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from boardwright.errors import HostError


def write_all(writes: Mapping[Path, bytes], removals: Sequence[Path]) -> None:
    """Write and remove files. When one step fails, what was there is put back: raises ``HostError``.

    The contents are on the disk under other names before the first file changes, so that a full disk changes
    nothing; what is left is renaming.
    """
    staged = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in writes}
    before = {path: path.read_bytes() if path.exists() else None for path in [*writes, *removals]}
    try:
        for path, temporary in staged.items():
            with temporary.open("wb") as file:
                file.write(writes[path])
                file.flush()
                os.fsync(file.fileno())
        try:
            for path, temporary in staged.items():
                temporary.replace(path)
            for path in removals:
                path.unlink()
        except BaseException:
            _restore(before)
            raise
    except OSError as error:
        raise HostError(f"cannot write {error.filename}: {error.strerror}; nothing was changed") from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _restore(before: Mapping[Path, bytes | None]) -> None:
    for path, content in before.items():
        with contextlib.suppress(OSError):
            if content is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
