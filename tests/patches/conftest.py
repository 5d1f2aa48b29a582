"""The bench of the patch tools' tests: two kernel lines, 7.3 and 6.1."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sources import NEW, OLD, Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for program in ("dpkg-deb", "xz", "git"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    made = Bench(tmp_path)
    made.kernel("7.3", NEW)
    made.kernel("6.1", OLD)
    monkeypatch.setenv("BOARDWRIGHT_CACHE", str(made.cache))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{name}_NAME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(
        "[user]\nname = A User\nemail = user@localhost\n[diff]\nnoprefix = true\n"
    )
    return made
