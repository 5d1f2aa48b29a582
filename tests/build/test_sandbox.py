"""The seal: what bubblewrap is told, and what a host that forbids namespaces is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builds import PROJECT, Bench, step

from boardwright.build import sandbox

FORBIDDEN = {
    "root": 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"',
    "user": 'echo 1 >/proc/sys/user/max_user_namespaces; exec unshare --user --map-user=1000 "$@"',
}
"""Commands that run in a user namespace whose kernel refuses further ones, as root of it or as a user."""


def _where_forbidden(
    who: str, program: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN[who], "sh"]
    command += [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}:{Path(__file__).parent}", **variables}
    if subprocess.run([*command[:5], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this host forbids user namespaces itself")
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


REQUIRE = """
from boardwright.build import sandbox
from boardwright.errors import HostError
try:
    sandbox.require()
except HostError as error:
    print(error)
"""


def test_a_user_whose_host_forbids_namespaces_is_told_what_to_allow_and_the_way_out() -> None:
    said = _where_forbidden("user", REQUIRE).stdout
    assert "this host does not allow user namespaces, which seal a step: " in said
    assert "kernel.unprivileged_userns_clone=1" in said
    assert "apparmor_restrict_unprivileged_userns=0" in said
    assert "BOARDWRIGHT_USERNS=0" in said


def test_root_in_such_a_container_is_told_of_its_own_way_out() -> None:
    said = _where_forbidden("root", REQUIRE).stdout
    assert "this host does not allow user namespaces" in said
    assert "CAP_SYS_ADMIN" in said
    assert "BOARDWRIGHT_USERNS=0" in said


def test_the_way_out_works_and_makes_the_same_bytes(bench: Bench) -> None:
    script = "{ id; umask; uname -n; head -n 99 /proc/self/status | while read -r a b; do\n"
    script += "case $a in CapEff:|CapPrm:|CapInh:|NoNew*) echo $a $b;; esac; done; } >/out/made"
    usual = bench.made(script)
    for entry in bench.store.entries():
        assert entry.description()["step"] == "tools" or bench.store.remove(entry.key)
    program = (
        "import sys; from pathlib import Path; from builds import Bench\n"
        f"print(Bench(Path(sys.argv[1])).made({script!r}), end='')"
    )
    done = _where_forbidden("root", program, str(bench.cache), BOARDWRIGHT_USERNS="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == usual


def test_a_host_that_allows_namespaces_passes() -> None:
    sandbox.require()


def _inside(root: Path, command: str, **seal: object) -> str:
    argv = sandbox.argv(sandbox.Seal(root, **seal), ["/bin/bash", "-c", command])  # type: ignore[arg-type]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_the_command_is_process_one_and_sees_only_itself(tiny_root: Path) -> None:
    assert _inside(tiny_root, "echo $$; cd /proc; echo [0-9]*") == "1\n1\n"


def test_variables_are_those_given_and_the_fixed_ones(tiny_root: Path) -> None:
    said = _inside(tiny_root, "env", variables={"A": "1", "TERM": "xterm"})
    assert set(said.split()) - {"SHLVL=0", "_=/usr/bin/env"} == {
        "A=1",
        "HOME=/work",
        "LC_ALL=C.UTF-8",
        f"PATH={sandbox.PATH}",
        "PWD=/",
        "TERM=xterm",
        "TZ=UTC",
    }


def test_links_at_the_top_of_a_root_stay_links(tiny_root: Path) -> None:
    assert _inside(tiny_root, "stat -c %F /bin /usr") == "symbolic link\ndirectory\n"


def test_writable_places_are_writable_and_read_only_ones_are_not(tiny_root: Path, tmp_path: Path) -> None:
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
    _inside(
        tiny_root,
        "touch /rw/x; touch /ro/x 2>/dev/null || true",
        read_only={"/ro": tmp_path / "ro"},
        writable={"/rw": tmp_path / "rw"},
    )
    assert [len(list((tmp_path / name).iterdir())) for name in ("ro", "rw")] == [0, 1]


def test_a_seal_with_a_network_has_the_hosts(tiny_root: Path) -> None:
    count = "read -r a </proc/net/dev; tail -n +3 /proc/net/dev | wc -l"
    host = len(Path("/proc/net/dev").read_text().splitlines()) - 2
    assert json.loads(_inside(tiny_root, count, network=True)) == host
    assert json.loads(_inside(tiny_root, count)) == 1


def test_a_step_with_a_kept_name_of_a_root_still_finds_its_places(bench: Bench) -> None:
    assert bench.made("pwd >/out/made") == "/work\n"
    assert bench.build(step("other", "touch /out/made"))
