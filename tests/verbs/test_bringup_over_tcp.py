"""``invoke bringup --target serial:socket://…``: from the power command to table, on a simulated board."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boardwright.console import bootscript
from boardwright.console.shell import Result
from boardwright.console.simulator import Script, ScriptedBoard, serve

ROOT = Path(__file__).parents[2]
SCRIPT = bootscript.load(ROOT / "tests/console/scripts/rock5b.yaml")
RELEASE = SCRIPT.answers["uname -r"].line
ONLY = "boots to a shell,image is the one,kernel release"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """This project's boards with an ``out`` of their own, in which an image was built; and a power switch."""
    for name in ("boards", "recipes", "patches"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "tasks.py", tmp_path)
    out = tmp_path / "out/rock5b"
    out.mkdir(parents=True)
    image = b"an image that only its digest matters of" * 100
    (out / "rock5b.img").write_bytes(image)
    manifest = {
        "kernel": {"release": RELEASE},
        "boot": {"root-partuuid": "c0b10592-cef7-55dc-abca-8ca13a20c237", "append": "quiet"},
        "artifacts": {"rock5b.img": hashlib.sha256(image).hexdigest()},
    }
    (out / "manifest.json").write_text(json.dumps(manifest))
    switch = tmp_path / "switch"
    switch.write_text(
        '#!/bin/sh\n[ "$1" != broken ] || { echo "relay: no answer" >&2; exit 1; }\necho "$1" >> switched\n'
    )
    switch.chmod(0o755)
    return tmp_path


@contextlib.contextmanager
def board(project: Path, script: Script) -> Iterator[str]:
    """The target's word; the board starts when its switch is on, and not before."""
    switched = project / "switched"
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, switched, script), daemon=True)
        thread.start()
        yield f"serial:socket://127.0.0.1:{server.getsockname()[1]}"


def _serve(server: socket.socket, switched: Path, script: Script) -> None:
    with contextlib.suppress(OSError):
        peer, _ = server.accept()
        with peer:
            end = time.monotonic() + 60
            while "on" not in (switched.read_text().split() if switched.exists() else ()):
                assert time.monotonic() < end
                time.sleep(0.05)
            serve(ScriptedBoard(script), peer.fileno(), 90.0, 8.0)


def bringup(
    project: Path, target: str, switch: str = "./switch", words: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "bringup", "--board", "rock5b", "--target", target,
         "--power", f"command:{switch}", "--only", ONLY, "--budget", "120", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=project, timeout=180, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BOARDWRIGHT_CACHE": str(project / "cache")},
    )  # fmt: skip
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stdout, done.stderr


def record(project: Path) -> dict[str, dict[str, Any]]:
    value = json.loads((project / "out/rock5b/bringup/bringup.json").read_text())
    return {check["check"]: check for check in value["checks"]}


def test_a_board_is_switched_on_booted_and_checked(project: Path) -> None:
    with board(project, SCRIPT) as target:
        status, table, said = bringup(project, target)
    assert status == 0, table + said
    assert (project / "switched").read_text().split() == ["off", "on"]
    checks = record(project)
    assert {check["outcome"] for check in checks.values()} == {"pass"}
    assert len(checks) == 3
    assert RELEASE in table
    log = (project / "out/rock5b/bringup/console.log").read_text()
    assert "U-Boot SPL 2025.01" in log, "the first bytes after the switch are there"


def test_another_kernel_is_the_products_failure(project: Path) -> None:
    other = replace(SCRIPT, answers={**SCRIPT.answers, "uname -r": Result("6.1.0-other\n", 0)})
    with board(project, other) as target:
        status, table, _ = bringup(project, target)
    assert status == 1
    assert record(project)["kernel release as built"]["outcome"] == "fail"
    assert "6.1.0-other" in table


def test_a_switch_that_does_not_work_is_the_labs_error(project: Path) -> None:
    with board(project, SCRIPT) as target:
        status, table, said = bringup(project, target, "./switch broken")
    assert status == 3
    assert "relay: no answer" in table + said
    assert not (project / "switched").exists()


KERNEL_BY_HAND = ("load mmc 1:1 ${kernel_addr_r} /Image", "booti ${kernel_addr_r} - ${fdt_addr_r}")


def with_a_loader_that(**change: Any) -> Script:
    assert SCRIPT.loader is not None
    return replace(SCRIPT, loader=replace(SCRIPT.loader, **change))


def test_other_bootargs_for_this_boot_reach_the_kernel(project: Path) -> None:
    load, boot = KERNEL_BY_HAND
    script = with_a_loader_that(append="root=/dev/extlinux", seconds=8, known={load: "4 bytes read\n"})
    words = ("--bootargs", "root=/dev/by-hand rw", "--loader-commands", load, "--boot-command", boot)
    with board(project, script) as target:
        status, table, said = bringup(project, target, words=words)
    assert status == 0, table + said
    log = (project / "out/rock5b/bringup/console.log").read_text()
    assert "Kernel command line: root=/dev/by-hand rw" in log


def test_bootargs_that_a_boot_script_overrules_are_the_boards_failure(project: Path) -> None:
    with board(project, with_a_loader_that(append="root=/dev/extlinux", seconds=8)) as target:
        status, table, said = bringup(project, target, words=("--bootargs", "root=/dev/by-hand rw"))
    assert status == 1, table + said
    assert "the kernel was not given" in table + said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--target", "qemu", "--bootargs", "quiet"), "add --u-boot"),
        (("--target", "serial:x", "--tell-apart"), "--power"),
    ],
)
def test_flags_that_do_not_fit_are_refused(project: Path, words: tuple[str, ...], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "bringup", "--board", "rock5b", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=project, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
