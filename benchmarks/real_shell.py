"""The login shell of a simulated board, for logins that are not ours: a real one with three programs."""

from __future__ import annotations

import subprocess
from pathlib import Path


class RealShell:
    """Each line in a shell of its own that has the functions defined before.

    Only ``sh``, ``uname`` and ``dmesg`` are there to be called: what a bad cable makes of a line is executed
    too. A quote left open is an error at once, which is kinder than a real terminal, where the shell would go
    on asking for its end.
    """

    def __init__(self, programs: Path, release: str) -> None:
        self._programs, self._defined = programs, list[str]()
        (programs / "release").write_text(release)

    def __call__(self, line: str) -> str:
        if line.startswith("run()"):
            self._defined.append(line)
        done = subprocess.run(
            ["/bin/sh", "-c", "\n".join([*self._defined, line])],
            env={"PATH": str(self._programs)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, cwd=self._programs,
        )  # fmt: skip
        if done.returncode == 2 and self._defined and self._defined[-1] == line:
            self._defined.pop()  # it did not arrive as a function
        return done.stdout.decode("utf-8", "replace")


def fake_programs(directory: Path) -> Path:
    (directory / "sh").symlink_to("/bin/sh")
    (directory / "uname").write_text('#!/bin/sh\nread -r release < release && echo "$release"\n')
    (directory / "dmesg").write_text("#!/bin/sh\n")
    for name in ("uname", "dmesg"):
        (directory / name).chmod(0o755)
    return directory
